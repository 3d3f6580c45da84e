package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// FieldDifference is a field in which an applied spec differs from the desired one. An absent value is "".
type FieldDifference struct {
	Field            string // spec.price.amountMinor
	Desired, Applied string
}

// Differences compares the desired spec of an object with the spec that its domain package has applied. Objects are
// compared field by field, lists as a whole. No code compares the fields of a kind.
func Differences(desired, applied json.RawMessage) ([]FieldDifference, error) {
	want, err := decodeSpec(desired)
	if err != nil {
		return nil, err
	}
	have, err := decodeSpec(applied)
	if err != nil {
		return nil, err
	}
	return differences(nil, "spec", want, have), nil
}

// decodeSpec leaves numbers as text, because a float would round them.
func decodeSpec(spec json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(spec))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading spec: %w", err)
	}
	return v, nil
}

func differences(list []FieldDifference, field string, want, have any) []FieldDifference {
	wanted, isObject := want.(map[string]any)
	had, wasObject := have.(map[string]any)
	if isObject && wasObject {
		names := slices.Sorted(maps.Keys(wanted))
		for _, name := range slices.Sorted(maps.Keys(had)) {
			if _, both := wanted[name]; !both {
				names = append(names, name)
			}
		}
		for _, name := range names {
			list = differences(list, field+"."+name, wanted[name], had[name])
		}
		return list
	}
	d, a := display(want), display(have)
	if d == a && document(want) != document(have) { // the text "8" and the number 8
		d, a = document(want), document(have)
	}
	if d != a {
		list = append(list, FieldDifference{field, d, a})
	}
	return list
}

// document returns a value as JSON. An absent value is the empty text.
func document(v any) string {
	if v == nil {
		v = ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// display returns text as it is and any other value as JSON.
func display(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return document(v)
}
