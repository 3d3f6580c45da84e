package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/parser"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/definition"
)

// goTypes returns desired/specs.gen.go: the Go type of the spec of each kind, with the comments of the definitions.
//
// `cue exp gengotypes` would do the same, but its package is internal, its command needs 14 modules that the server
// does not have, and it turns every pattern such as #Name into a Go type of its own.
func goTypes([]byte) ([]byte, error) {
	_, definitions, err := definition.Compile(parser.ParseComments)
	if err != nil {
		return nil, err
	}
	w := goWriter{}
	for _, kind := range desired.Kinds() {
		w.queue(string(kind), docOf(definitions[kind]), definitions[kind].LookupPath(cue.ParsePath("spec")))
	}
	for len(w.queued) > 0 {
		next := w.queued[0]
		w.queued = w.queued[1:]
		if err := w.structure(next); err != nil {
			return nil, err
		}
	}
	header := "// Code generated from cue/schema by desired/validate/gen. DO NOT EDIT.\n\npackage desired\n\n"
	if strings.Contains(w.text.String(), "time.Time") {
		header += "import \"time\"\n\n"
	}
	text, err := format.Source([]byte(header + w.text.String()))
	if err != nil {
		return nil, fmt.Errorf("formatting Go types: %w", err)
	}
	return text, nil
}

// goWriter writes structures in the sequence of their first use.
type goWriter struct {
	text   bytes.Buffer
	queued []goStruct
	names  []string // of all structures, written or queued
}

type goStruct struct {
	name, doc string
	value     cue.Value
}

func (w *goWriter) queue(name, doc string, v cue.Value) {
	if !slices.Contains(w.names, name) {
		w.names = append(w.names, name)
		w.queued = append(w.queued, goStruct{name, doc, v})
	}
}

func (w *goWriter) structure(s goStruct) error {
	fmt.Fprintf(&w.text, "%stype %s struct {\n", s.doc, s.name)
	fields, err := s.value.Fields(cue.Optional(true))
	if err != nil {
		return fmt.Errorf("reading the fields of %s: %w", s.name, err)
	}
	for fields.Next() {
		name, optional := fields.Selector().Unquoted(), fields.Selector().ConstraintType() == cue.OptionalConstraint
		v := fields.Value()
		attribute := v.Attribute("go")
		goName, _ := attribute.String(0)
		if goName == "" {
			goName = exported(name)
		}
		written, _, err := attribute.Lookup(1, "type")
		if err != nil && attribute.Err() == nil {
			return fmt.Errorf("%s.%s: reading @go: %w", s.name, name, err)
		}
		goType, err := w.goType(s.name+"."+name, goName, written, optional, v)
		if err != nil {
			return err
		}
		tag := name
		if optional {
			tag += ",omitempty"
		}
		fmt.Fprintf(&w.text, "%s%s %s `json:%q`\n", docOf(v), goName, goType, tag)
	}
	w.text.WriteString("}\n\n")
	return nil
}

// goType returns the Go type of a value. written is the type of the attribute @go(,type=…). It names the structure of an
// object, and is the whole type of any other value.
func (w *goWriter) goType(at, field, written string, optional bool, v cue.Value) (string, error) {
	inner := v
	if v.IncompleteKind() == cue.ListKind {
		inner = v.LookupPath(cue.MakePath(cue.AnyIndex))
	}
	if inner.IncompleteKind() == cue.StructKind && isStructure(inner) {
		name := field
		if written != "" {
			name = strings.TrimLeft(written, "[]*")
		}
		w.queue(name, structureDoc(name, cue.Dereference(inner), v), inner)
		switch {
		case v.IncompleteKind() == cue.ListKind:
			return "[]" + name, nil
		case optional:
			return "*" + name, nil
		}
		return name, nil
	}
	if written != "" {
		return written, nil
	}
	switch v.IncompleteKind() {
	case cue.StringKind:
		return "string", nil
	case cue.BoolKind:
		return "bool", nil
	case cue.IntKind:
		return "int", nil
	case cue.ListKind:
		element, err := w.goType(at, field, "", false, inner)
		return "[]" + element, err
	case cue.StructKind:
		value, err := w.goType(at, field, "", false, v.LookupPath(cue.MakePath(cue.AnyString)))
		return "map[string]" + value, err
	}
	return "", unknown(at, v, "the Go type of")
}

func isStructure(v cue.Value) bool {
	fields, err := v.Fields(cue.Optional(true))
	return err == nil && fields.Next()
}

// initialisms are the parts of names that Go writes in another case than their first letter.
var initialisms = strings.NewReplacer("Id", "ID", "Url", "URL", "Gpu", "GPU", "Sku", "SKU", "Uid", "UID", "Ssh", "SSH")

func exported(name string) string {
	return initialisms.Replace(strings.ToUpper(name[:1]) + name[1:])
}

// structureDoc returns the comment of a structure: that of its definition, or of its field. Both begin with a name, which
// becomes that of the structure, and a verb.
func structureDoc(name string, values ...cue.Value) string {
	for _, v := range values {
		words := strings.SplitN(docOf(v), " ", 4)
		if len(words) == 4 && slices.Contains([]string{"is", "names", "defines", "refers"}, words[2]) {
			words[1] = name
			return strings.Join(words, " ")
		}
	}
	return "// " + name + " is a part of a spec.\n"
}

// docOf returns the comment above a field, as a Go comment. A definition's comment begins with its name.
func docOf(v cue.Value) string {
	groups := v.Doc()
	if len(groups) == 0 {
		return ""
	}
	var text strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(groups[0].Text()), "\n") {
		text.WriteString("// " + strings.TrimPrefix(line, "#") + "\n")
	}
	return text.String()
}
