package validate

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"cuelang.org/go/cue"
	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/desired"
)

// TestJSONSchema holds the schema that editors read against the definitions. It
// says less than they do: an editor helps to write, and validation judges.
func TestJSONSchema(t *testing.T) {
	t.Parallel()
	const path = "../../cue/gpuaas.schema.json"
	_, definitions, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	delete(definitions, desired.KindAllocation) // never in files
	// By kind, and not one of all: so an editor names the field that is wrong.
	var kinds []any
	names := slices.Sorted(maps.Keys(definitions))
	for _, kind := range names {
		kinds = append(kinds, map[string]any{
			"if": map[string]any{"properties": map[string]any{"kind": map[string]any{"const": kind}}}, "then": forEditors(definitions[kind]),
		})
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "\t")
	if err := out.Encode(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "GPUaaS declaration", "type": "object",
		"required": []string{"apiVersion", "kind", "metadata", "spec"}, "properties": map[string]any{"kind": map[string]any{"enum": names}}, "allOf": kinds,
	}); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("cue/gpuaas.schema.json is out of date: go test ./desired/validate -run JSONSchema -update\n%s", diff)
	}
}

// forEditors is a definition as JSON Schema of draft 7, which all editors know.
func forEditors(v cue.Value) map[string]any {
	s := map[string]any{}
	if text := expectation(v); text != "an object with fields" && text != "" {
		s["description"] = text
	}
	// A single word has no choice, or none until another field is known.
	if d, _ := v.Default(); d.IsConcrete() && d.Kind() != cue.StructKind && plain(d) != nil {
		s["default"] = plain(d)
	}
	switch v.IncompleteKind() {
	case cue.StructKind:
		addFields(s, v)
	case cue.ListKind:
		s["type"] = "array"
		if element := v.LookupPath(cue.MakePath(cue.AnyIndex)); element.Exists() {
			s["items"] = forEditors(element)
		}
	case cue.StringKind:
		if words := alternatives(v); len(words) > 1 {
			s["enum"] = words
		} else {
			s["type"] = "string"
		}
	case cue.BoolKind:
		s["type"] = "boolean"
	case cue.IntKind:
		s["type"] = "integer"
	case cue.NumberKind, cue.FloatKind:
		s["type"] = "number"
	}
	return s
}

func addFields(s map[string]any, v cue.Value) {
	s["type"] = "object"
	properties := map[string]any{}
	var required []string
	for fields, err := v.Fields(cue.Optional(true)); err == nil && fields.Next(); {
		name := fields.Selector().Unquoted()
		properties[name] = forEditors(fields.Value())
		if fields.FieldType()&cue.RequiredConstraint != 0 {
			required = append(required, name)
		}
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	s["additionalProperties"] = false
	if len(properties) == 0 { // names of people's own
		s["additionalProperties"] = map[string]any{"type": "string"}
	}
}

func plain(v cue.Value) any {
	var out any
	text, err := v.MarshalJSON()
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}
