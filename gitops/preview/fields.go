package preview

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
)

// fields lists the differences between two versions of one object by JSON pointer, sorted. A zero
// object has no fields.
func fields(old, now desired.Object) []Field {
	list := []Field{}
	differ(&list, "", document(old), document(now))
	return list
}

// document returns the user-written fields of an object, as far as two versions may differ.
func document(o desired.Object) any {
	if o.Kind == "" {
		return absent{}
	}
	return map[string]any{
		"metadata": map[string]any{"labels": stringMap(o.Labels), "annotations": stringMap(o.Annotations)},
		"spec":     decode(o.Spec),
	}
}

// opened are the paths below which every field of a new object is listed by itself. Elsewhere a new
// value is one field.
var opened = []string{"", "/metadata", "/metadata/labels", "/metadata/annotations", "/spec"}

func stringMap(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// decode preserves numbers as they are written: a float would round them.
func decode(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(text) // no JSON: it differs from what is
	}
	return v
}

func differ(list *[]Field, at string, old, now any) {
	if slices.Contains(opened, at) {
		old, now = orEmpty(old, now), orEmpty(now, old)
	}
	was, had := old.(map[string]any)
	is, has := now.(map[string]any)
	if had && has {
		for _, name := range keysOf(was, is) {
			differ(list, at+"/"+escape(name), missing(was, name), missing(is, name))
		}
		return
	}
	before, had := old.([]any)
	after, has := now.([]any)
	if had && has {
		for i := range max(len(before), len(after)) {
			differ(list, at+"/"+strconv.Itoa(i), item(before, i), item(after, i))
		}
		return
	}
	if from, to := displayValue(old), displayValue(now); from != to {
		*list = append(*list, Field{at, from, to})
	}
}

// orEmpty returns an empty object for a missing value if the other value is an object. Each field
// is then compared by itself.
func orEmpty(v, beside any) any {
	if _, object := beside.(map[string]any); object && isAbsent(v) {
		return map[string]any{}
	}
	return v
}

// absent marks a missing value. JSON's null is nil.
type absent struct{}

func missing(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

func isAbsent(v any) bool {
	_, is := v.(absent)
	return is
}

func keysOf(a, b map[string]any) []string {
	all := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(all)
	return slices.Compact(all)
}

// escape is RFC 6901's.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func displayValue(v any) string {
	if isAbsent(v) {
		return ""
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it came from JSON
	return strings.TrimSuffix(text.String(), "\n")
}

// same reports whether only the position in the file differs.
func same(p revision.Pair) bool {
	if p.Old.SpecHash == desired.Hash(p.New.Spec) {
		return maps.Equal(p.Old.Labels, p.New.Labels) && maps.Equal(p.Old.Annotations, p.New.Annotations)
	}
	return len(fields(p.Old, p.New)) == 0
}
