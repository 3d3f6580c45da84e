package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	schema "github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// kindSchema is the JSON Schema of one kind: compiled, and as it is written, for the defaults.
type kindSchema struct {
	compiled *jsonschema.Schema
	written  map[string]any
}

// schemaURL is absolute, because the library would search for a relative one in the file system.
const schemaURL = "urn:gpuaas:schema"

// compileSchemas compiles the generated schema, kind by kind. It fails only in a build whose schema is
// broken.
func compileSchemas() (map[desired.Kind]kindSchema, error) {
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.JSONSchema))
	if err != nil {
		return nil, fmt.Errorf("reading embedded JSON Schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	// Both read a time as CUE's time.Time does.
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: validTime})
	// Each pattern is used by many fields and compiled once.
	patterns := map[string]jsonschema.Regexp{}
	c.UseRegexpEngine(func(source string) (jsonschema.Regexp, error) {
		if patterns[source] == nil {
			compiled, err := regexp.Compile(source)
			if err != nil {
				return nil, fmt.Errorf("compiling a pattern: %w", err)
			}
			patterns[source] = compiled
		}
		return patterns[source], nil
	})
	if err := c.AddResource(schemaURL, body); err != nil {
		return nil, fmt.Errorf("adding embedded JSON Schema: %w", err)
	}
	whole, _ := body.(map[string]any)
	definitions, _ := whole["definitions"].(map[string]any)
	schemas := map[desired.Kind]kindSchema{}
	for _, kind := range desired.Kinds() {
		written, ok := definitions[string(kind)].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the embedded JSON Schema has no definition of kind %s", kind)
		}
		compiled, err := c.Compile(schemaURL + "#/definitions/" + string(kind))
		if err != nil {
			return nil, fmt.Errorf("compiling the JSON Schema of kind %s: %w", kind, err)
		}
		schemas[kind] = kindSchema{compiled, written}
	}
	return schemas, nil
}

func validTime(v any) error {
	if text, ok := v.(string); ok {
		_, err := time.Parse(time.RFC3339Nano, text)
		return err
	}
	return nil
}

// accepted validates a document with the JSON Schema of its kind. It returns what CUE would return,
// positions included. It reports false for a document that the schema does not accept: then CUE
// decides and writes the findings.
func (c *Checker) accepted(n *document.Node, at document.Place) (checked, bool) {
	kind := n.Member("kind")
	if c.slow || kind == nil {
		return checked{}, false
	}
	text, _ := kind.Value.Value.(string)
	s, known := c.schemas[desired.Kind(text)]
	value, ok := n.Plain()
	if !known || !ok {
		return checked{}, false
	}
	body, _ := value.(map[string]any)
	fill(s.written, body, nameOfObject(body))
	if s.compiled.Validate(value) != nil {
		return checked{}, false
	}
	return c.acceptedObject(desired.Kind(text), n, body, at)
}

func nameOfObject(body map[string]any) any {
	metadata, _ := body["metadata"].(map[string]any)
	return metadata["name"]
}

func (c *Checker) acceptedObject(kind desired.Kind, n *document.Node, body map[string]any, at document.Place) (checked, bool) {
	spec, err := encode(body["spec"])
	if err != nil {
		return checked{}, false
	}
	metadata, _ := body["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	o := checked{
		at: at, kind: kind, name: string(kind) + "/" + name,
		object: desired.Object{
			Kind: kind, Name: name, Labels: texts(metadata["labels"]), Annotations: texts(metadata["annotations"]), Spec: spec, SpecHash: desired.Hash(spec),
			Source: desired.Source{Owner: desired.OwnerGit, Path: at.Path, Line: at.Line, Column: at.Column},
		},
	}
	for _, f := range crossFields[kind] {
		if m := n.Member(f.names...); m != nil {
			o.fields = append(o.fields, fieldPlace{f.name, m.At.In(at.Path)})
		}
	}
	if sources := n.Member("spec", "sources"); kind == desired.KindEnvironment && sources != nil {
		list, _ := sources.Value.Value.([]document.Node)
		for i := range list {
			o.fields = append(o.fields, fieldPlace{sourceName(i), list[i].Member("name").At.In(at.Path)})
		}
	}
	return o, true
}

// fill adds the defaults of a schema to a value. It only adds, so that an invalid value stays invalid.
func fill(s map[string]any, v, name any) {
	if list, ok := v.([]any); ok {
		items, _ := s["items"].(map[string]any)
		for _, item := range list {
			fill(items, item, name)
		}
	}
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	fields, _ := s["properties"].(map[string]any)
	for field, of := range fields {
		of, _ := of.(map[string]any)
		if _, there := object[field]; !there {
			addDefault(of, object, field, name)
		}
		fill(of, object[field], name)
	}
	branches, _ := s["allOf"].([]any)
	for _, b := range branches {
		if branch, _ := b.(map[string]any); chosen(branch["if"], object) {
			then, _ := branch["then"].(map[string]any)
			fill(then, v, name)
		}
	}
}

func addDefault(s, object map[string]any, field string, name any) {
	switch value := s["default"].(type) {
	case nil:
		if s["x-default-name"] == true && name != nil {
			object[field] = name
		}
	case map[string]any:
		object[field] = maps.Clone(value) // its own fields are filled in next
	default:
		object[field] = value // a list in a schema has no fields to fill in
	}
}

// chosen reports whether the generated condition is true: one field has the given text.
func chosen(condition any, object map[string]any) bool {
	s, _ := condition.(map[string]any)
	fields, _ := s["properties"].(map[string]any)
	for field, of := range fields {
		if of, ok := of.(map[string]any); ok && of["const"] == object[field] {
			return true
		}
	}
	return false
}

// texts reads an object of texts, such as labels; nil when there is none.
func texts(v any) map[string]string {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	m := make(map[string]string, len(object))
	for name, value := range object {
		m[name], _ = value.(string)
	}
	return m
}

// encode writes a value with its keys sorted, so that equal specs are equal bytes.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
