package validate

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"

	schema "github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/desired"
)

// parseSchema reads the embedded files. Each compilation needs its own syntax,
// because compiling resolves identifiers inside it.
func parseSchema() ([]*ast.File, error) {
	entries, err := schema.Schema.ReadDir("schema")
	if err != nil {
		return nil, fmt.Errorf("reading embedded schema: %w", err)
	}
	var files []*ast.File
	for _, e := range entries {
		src, err := schema.Schema.ReadFile("schema/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading embedded schema: %w", err)
		}
		f, err := parser.ParseFile("schema", src) // no name that an author's file can have
		if err != nil {
			return nil, fmt.Errorf("parsing embedded schema: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// compile makes a fresh context and the definitions in it.
func compile() (*cue.Context, map[desired.Kind]cue.Value, error) {
	files, err := parseSchema()
	if err != nil {
		return nil, nil, err
	}
	inst := build.NewContext().NewInstance("schema", nil)
	for _, f := range files {
		if err := inst.AddSyntax(f); err != nil {
			return nil, nil, fmt.Errorf("compiling embedded schema: %w", err)
		}
	}
	ctx := cuecontext.New()
	root := ctx.BuildInstance(inst)
	if err := root.Validate(); err != nil {
		return nil, nil, fmt.Errorf("compiling embedded schema: %w", err)
	}
	definitions := map[desired.Kind]cue.Value{}
	for _, kind := range desired.Kinds() {
		d := root.LookupPath(cue.MakePath(cue.Def(string(kind))))
		if !d.Exists() {
			return nil, nil, fmt.Errorf("embedded schema has no definition of kind %s", kind)
		}
		definitions[kind] = d
	}
	return ctx, definitions, nil
}

// known is what the schema says about the fields of a kind, by dotted path: the
// words that people read. An element of a list is the path with a star.
type known map[string]knownField

type knownField struct {
	expected string
	required bool
	secret   bool     // only a reference may stand there
	kind     cue.Kind // of its values
	fields   []string // of a struct: what may stand in it
	open     bool     // any name that a pattern accepts may stand in it
	element  string   // of an open struct: what its values must be
	elements cue.Kind // and of which kind
}

func describe(definition cue.Value) known {
	k := known{}
	k.add("", definition)
	return k
}

func (k known) add(at string, v cue.Value) {
	secret := v.Attribute("secret")
	f := knownField{expected: expectation(v), kind: v.IncompleteKind(), secret: secret.Err() == nil}
	if v.IncompleteKind() == cue.StructKind {
		it, err := v.Fields(cue.Optional(true))
		if err == nil {
			for it.Next() {
				name := it.Selector().Unquoted()
				f.fields = append(f.fields, name)
				k.add(join(at, name), it.Value())
				if it.Selector().ConstraintType() == cue.RequiredConstraint {
					inner := k[join(at, name)]
					inner.required = true
					k[join(at, name)] = inner
				}
			}
		}
		f.open = len(f.fields) == 0
		if f.open {
			f.element, f.elements = f.expected, cue.StringKind // labels and annotations
			if e := v.LookupPath(cue.MakePath(cue.AnyString)); e.Exists() {
				f.element = expectation(e)
			}
		}
	}
	if v.IncompleteKind() == cue.ListKind {
		if e := v.LookupPath(cue.MakePath(cue.AnyIndex)); e.Exists() {
			k.add(join(at, "*"), e)
		}
	}
	k[at] = f
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// expectation says in words what a value must be: the schema's own sentence, or
// one made of its type, bounds and enumeration.
func expectation(v cue.Value) string {
	if a := v.Attribute("expect"); a.Err() == nil {
		if text, err := a.String(0); err == nil {
			return text
		}
	}
	switch v.IncompleteKind() {
	case cue.BoolKind:
		return "true or false"
	case cue.IntKind:
		return "an integer" + bounds(v)
	case cue.StringKind:
		if words := alternatives(v); len(words) > 1 {
			return oneOf(words)
		} else if len(words) == 1 {
			return words[0]
		}
		return "text"
	case cue.ListKind:
		return "a list"
	case cue.StructKind:
		return "an object with fields"
	}
	return ""
}

// alternatives lists the words of an enumeration once each, or nothing when the
// value is not one.
func alternatives(v cue.Value) []string {
	if s, err := v.String(); err == nil && v.IsConcrete() && !isDisjunction(v) {
		return []string{s}
	}
	if !isDisjunction(v) {
		return nil
	}
	_, args := v.Expr()
	seen := map[string]bool{}
	var words []string
	for _, a := range args {
		inner := alternatives(cue.Dereference(a))
		if inner == nil {
			return nil
		}
		for _, w := range inner {
			if !seen[w] {
				seen[w] = true
				words = append(words, w)
			}
		}
	}
	return words
}

func isDisjunction(v cue.Value) bool {
	op, args := v.Expr()
	return op == cue.OrOp && len(args) > 1
}

// bounds reads the limits of an integer out of its constraints.
func bounds(v cue.Value) string {
	low, high := limits(v, 0)
	switch {
	case low != "" && high != "":
		return " from " + low + " to " + high
	case low != "":
		return " of at least " + low
	case high != "":
		return " of at most " + high
	}
	return ""
}

// limits walks an expression of constraints. A value that is no expression
// gives itself back, so the depth is bounded.
func limits(v cue.Value, depth int) (low, high string) {
	op, args := cue.Dereference(v).Expr()
	switch {
	case op == cue.GreaterThanEqualOp:
		return number(args[0]), ""
	case op == cue.LessThanEqualOp:
		return "", number(args[0])
	case number(v) == "uint":
		return "0", ""
	case depth > 8:
		return "", ""
	}
	for _, a := range args {
		l, h := limits(a, depth+1)
		if l != "" {
			low = l
		}
		if h != "" {
			high = h
		}
	}
	return low, high
}

func number(v cue.Value) string { return strings.ReplaceAll(fmt.Sprint(v), "_", "") }
