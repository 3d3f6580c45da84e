package breaking

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// direction states whether clients write a schema or read it.
type direction bool

const (
	request direction = false // clients write it: it may only become wider
	reply   direction = true  // clients read it: it may only become narrower
)

func (d direction) String() string {
	if d == reply {
		return "reply"
	}
	return "request"
}

type visit struct {
	then, now *openapi3.Schema
	direction
}

func (c *comparison) schema(where at, way string, d direction, then, now *openapi3.SchemaRef) {
	if then == nil || now == nil {
		if then != now {
			c.note(Break, into(where, way), "has a schema on one side only")
		}
		return
	}
	old, s := then.Value, now.Value
	if c.visited[visit{old, s, d}] {
		return
	}
	c.visited[visit{old, s, d}] = true

	where = into(where, way)
	if name, found := strings.CutPrefix(now.Ref, "#/components/schemas/"); found {
		where.place = name
	}
	where = c.under(where, s.Extensions)

	c.types(where, d, old, s)
	c.values(where, d, old, s)
	if d == request {
		c.bounds(where, old, s)
	}
	c.fields(where, d, old, s)
	c.rest(where, d, old, s)
}

func into(where at, way string) at {
	where.place += "." + way
	return where
}

// A removed type breaks the clients that write it. A new type breaks the clients that read it.
func (c *comparison) types(where at, d direction, old, s *openapi3.Schema) {
	then, now := kinds(old), kinds(s)
	if d == reply {
		then, now = now, then
	}
	if !fits(then, now) {
		c.note(Break, where, "is %s, was %s", named(s), named(old))
		return
	}
	if old.Format != s.Format && (s.Format != "" || d == reply) {
		c.note(Break, where, "has the format %q, had %q", s.Format, old.Format)
	}
}

// fits reports whether every value of the types is also a value of the others. An empty list means
// every type.
func fits(types, others []string) bool {
	if len(types) == 0 || len(others) == 0 {
		return len(others) == 0
	}
	for _, kind := range types {
		whole := kind == openapi3.TypeInteger && slices.Contains(others, openapi3.TypeNumber)
		if !whole && !slices.Contains(others, kind) {
			return false
		}
	}
	return true
}

func kinds(s *openapi3.Schema) []string {
	list := slices.Clone(s.Type.Slice())
	if s.Nullable {
		list = append(list, openapi3.TypeNull)
	}
	return list
}

func named(s *openapi3.Schema) string {
	if list := kinds(s); len(list) > 0 {
		return strings.Join(list, " or ")
	}
	return "anything"
}

// values compares enumerations. A reader should accept unknown values, so a new value in a reply is
// only a warning.
func (c *comparison) values(where at, d direction, old, s *openapi3.Schema) {
	then, now := enumOf(old), enumOf(s)
	switch {
	case d == request && len(then) == 0 && len(now) > 0:
		c.note(Break, where, "takes only %s", strings.Join(now, ", "))
	case d == reply && len(then) > 0 && len(now) == 0:
		c.note(Warning, where, "may have any value")
	}
	if len(then) == 0 || len(now) == 0 {
		return
	}
	for _, word := range then {
		if d == request && !slices.Contains(now, word) {
			c.note(Break, where, "does not take %q any more", word)
		}
	}
	for _, word := range now {
		if d == reply && !slices.Contains(then, word) {
			what, l := "may be %q", Warning
			if s.Const != nil {
				what, l = "is always %q", Break // a client that compares with the old value finds no match
			}
			c.note(l, where, what, word)
		}
	}
}

func enumOf(s *openapi3.Schema) []string {
	all := s.Enum
	if s.Const != nil {
		all = []any{s.Const}
	}
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = fmt.Sprint(v)
	}
	return list
}

func (c *comparison) bounds(where at, old, s *openapi3.Schema) {
	for _, b := range []struct {
		name      string
		then, now *float64
		upper     bool
	}{
		{"minimum", old.Min, s.Min, false},
		{"maximum", old.Max, s.Max, true},
		{"minLength", least(old.MinLength), least(s.MinLength), false},
		{"maxLength", most(old.MaxLength), most(s.MaxLength), true},
		{"minItems", least(old.MinItems), least(s.MinItems), false},
		{"maxItems", most(old.MaxItems), most(s.MaxItems), true},
		{"minProperties", least(old.MinProps), least(s.MinProps), false},
		{"maxProperties", most(old.MaxProps), most(s.MaxProps), true},
	} {
		switch {
		case b.now == nil:
		case b.then == nil:
			c.note(Break, where, "has %s %v, had none", b.name, *b.now)
		case b.upper && *b.now < *b.then, !b.upper && *b.now > *b.then:
			c.note(Break, where, "has %s %v, had %v", b.name, *b.now, *b.then)
		}
	}
	if s.Pattern != "" && s.Pattern != old.Pattern {
		c.note(Break, where, "must match %q", s.Pattern)
	}
	if s.UniqueItems && !old.UniqueItems {
		c.note(Break, where, "must not hold a value twice")
	}
}

func least(n uint64) *float64 {
	if n == 0 {
		return nil
	}
	return most(&n)
}

func most(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func (c *comparison) fields(where at, d direction, old, s *openapi3.Schema) {
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		now, kept := s.Properties[name]
		switch {
		case kept:
			c.schema(where, name, d, old.Properties[name], now)
		case d == reply:
			c.note(Break, where, "has no field %q any more", name)
		case closed(s):
			c.note(Break, where, "rejects the field %q", name)
		}
	}
	for _, name := range s.Required {
		if d == request && !slices.Contains(old.Required, name) {
			c.note(Break, where, "requires the field %q", name)
		}
	}
	for _, name := range old.Required {
		if _, kept := s.Properties[name]; d == reply && kept && !slices.Contains(s.Required, name) {
			c.note(Break, where, "may lack the field %q", name)
		}
	}
	if d == request && closed(s) && !closed(old) {
		c.note(Break, where, "rejects unknown fields")
	}
}

func closed(s *openapi3.Schema) bool {
	return s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
}

// rest goes into what has no name of its own.
func (c *comparison) rest(where at, d direction, old, s *openapi3.Schema) {
	if old.Items != nil && s.Items != nil {
		c.schema(where, "items", d, old.Items, s.Items)
	}
	if then, now := old.AdditionalProperties.Schema, s.AdditionalProperties.Schema; then != nil && now != nil {
		c.schema(where, "values", d, then, now)
	}
	for _, of := range []struct {
		name      string
		then, now openapi3.SchemaRefs
	}{{"allOf", old.AllOf, s.AllOf}, {"oneOf", old.OneOf, s.OneOf}, {"anyOf", old.AnyOf, s.AnyOf}} {
		if len(of.then) != len(of.now) {
			c.note(Break, where, "has %d forms in %s, had %d", len(of.now), of.name, len(of.then))
			continue
		}
		for i := range of.then {
			c.schema(where, fmt.Sprintf("%s.%d", of.name, i), d, of.then[i], of.now[i])
		}
	}
}
