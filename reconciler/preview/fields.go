package preview

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
)

// fields lists what differs between two forms of one object, by JSON pointer and
// in the order of the pointers. A zero object has nothing.
func fields(old, now desired.Object) []Field {
	list := []Field{}
	differ(&list, "", document(old), document(now))
	return list
}

// document is what people write of an object, as far as it may differ.
func document(o desired.Object) any {
	if o.Kind == "" {
		return absent{}
	}
	return map[string]any{
		"metadata": map[string]any{"labels": words(o.Labels), "annotations": words(o.Annotations)},
		"spec":     decode(o.Spec),
	}
}

func words(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// decode keeps numbers as they are written: a float would round them.
func decode(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(text) // no JSON: it differs from what is
	}
	return v
}

func differ(list *[]Field, at string, old, now any) {
	if was, is, ok := asMaps(old, now); ok {
		for _, name := range keysOf(was, is) {
			differ(list, at+"/"+escape(name), missing(was, name), missing(is, name))
		}
		return
	}
	if was, is, ok := asLists(old, now); ok {
		for i := range max(len(was), len(is)) {
			differ(list, at+"/"+strconv.Itoa(i), item(was, i), item(is, i))
		}
		return
	}
	if from, to := shown(old), shown(now); from != to {
		*list = append(*list, Field{at, from, to})
	}
}

// absent is where there is no value; nil is JSON's null.
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

// asMaps takes two objects, or one and nothing; an empty one beside nothing is a
// value of its own.
func asMaps(a, b any) (x, y map[string]any, ok bool) {
	x, first := a.(map[string]any)
	y, second := b.(map[string]any)
	return x, y, first && second || first && len(x) > 0 && gone(b) || second && len(y) > 0 && gone(a)
}

func asLists(a, b any) (x, y []any, ok bool) {
	x, first := a.([]any)
	y, second := b.([]any)
	return x, y, first && second || first && len(x) > 0 && gone(b) || second && len(y) > 0 && gone(a)
}

func gone(v any) bool {
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

func shown(v any) string {
	if gone(v) {
		return ""
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it came from JSON
	return strings.TrimSuffix(text.String(), "\n")
}

// same says that nothing differs but the place in the file.
func same(p desired.Pair) bool {
	if p.Old.SpecHash == desired.Hash(p.New.Spec) {
		return maps.Equal(p.Old.Labels, p.New.Labels) && maps.Equal(p.Old.Annotations, p.New.Annotations)
	}
	return len(fields(p.Old, p.New)) == 0
}
