package audit

import (
	"maps"
	"reflect"
)

// Fields are the values of a resource by the name of the field, for Before and After of an Entry.
type Fields = map[string]any

// Differ returns the fields whose values differ, before and after. Both are empty if nothing changed.
func Differ(before, after Fields) (was, is Fields) {
	same := func(name string, _ any) bool { return reflect.DeepEqual(before[name], after[name]) }
	was, is = maps.Clone(before), maps.Clone(after)
	maps.DeleteFunc(was, same)
	maps.DeleteFunc(is, same)
	return was, is
}

// Personal replaces personal data in a row. A row is never changed, so it names a person by the id, behind
// which the name and the address can be removed.
const Personal = "(personal)"

// WithoutPersonal replaces the values of personal fields.
func WithoutPersonal(f Fields, names ...string) Fields {
	for _, name := range names {
		if _, ok := f[name]; ok {
			f[name] = Personal
		}
	}
	return f
}
