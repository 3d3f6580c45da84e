package explain

import (
	"cuelang.org/go/cue"

	"github.com/gpuaas/gpuaas/desired/validate/definition"
)

// Fields describes the fields of a kind by dotted path, with the texts of findings. An element of a
// list has the path with a star.
type Fields map[string]fieldText

type fieldText struct {
	expected string
	required bool
	secret   bool     // only a reference is valid there
	kind     cue.Kind // of its values
	Fields   []string // of a struct: its valid fields
	open     bool     // any name that a pattern accepts is valid
	element  string   // of an open struct: what its values must be
	elements cue.Kind // and of which kind
}

// Describe reads the fields of a definition.
func Describe(d cue.Value) Fields {
	k := Fields{}
	k.add("", d)
	return k
}

func (k Fields) add(at string, v cue.Value) {
	secret := v.Attribute("secret")
	f := fieldText{expected: definition.Expectation(v), kind: v.IncompleteKind(), secret: secret.Err() == nil}
	if v.IncompleteKind() == cue.StructKind {
		it, err := v.Fields(cue.Optional(true))
		if err == nil {
			for it.Next() {
				name := it.Selector().Unquoted()
				f.Fields = append(f.Fields, name)
				k.add(join(at, name), it.Value())
				if it.Selector().ConstraintType() == cue.RequiredConstraint {
					inner := k[join(at, name)]
					inner.required = true
					k[join(at, name)] = inner
				}
			}
		}
		f.open = len(f.Fields) == 0
		if f.open {
			f.element, f.elements = f.expected, cue.StringKind // labels and annotations
			if e := v.LookupPath(cue.MakePath(cue.AnyString)); e.Exists() {
				f.element = definition.Expectation(e)
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
