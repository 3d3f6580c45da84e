package policies

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/internal/money"
)

// Snapshot contains all values at one revision. It never changes: a decision uses one snapshot for all
// its values, and records its revision.
type Snapshot struct {
	Revision int64
	Roles    RoleTable
	values   map[setting]any
}

type setting struct {
	key   string
	scope Scope
}

// add adds the value of a subject. If several objects set it, by the name and by the id of a tenant,
// the value is within the caps of each.
func (s *Snapshot) add(at setting, value any) {
	if other, ok := s.values[at]; ok {
		k, _ := Define(at.key)
		value = k.capped(other, value)
	}
	s.values[at] = value
}

// View reads a snapshot for one caller or one resource, along its scopes.
type View struct {
	Revision int64
	Roles    RoleTable
	values   map[setting]any
	scopes   []Scope // from wide to narrow
}

// For reads along these scopes. The platform is always among them.
func (s Snapshot) For(scopes ...Scope) View {
	v := View{Revision: s.Revision, Roles: s.Roles, values: s.values, scopes: []Scope{Platform}}
	for _, scope := range scopes {
		if scope.Level() != "" && !slices.Contains(v.scopes, scope) {
			v.scopes = append(v.scopes, scope)
		}
	}
	rank := Levels()
	slices.SortStableFunc(v.scopes, func(a, b Scope) int {
		return cmp.Compare(slices.Index(rank, a.Level()), slices.Index(rank, b.Level()))
	})
	return v
}

// With returns the view as it will be once a desired value is applied. The value must have passed Check.
func (v View) With(key string, scope Scope, value any) View {
	values := maps.Clone(v.values)
	if values == nil {
		values = map[setting]any{}
	}
	values[setting{key, scope}] = value
	v.values = values
	return v
}

// Bool reads a switch.
func (v View) Bool(key BoolKey) bool {
	b, _ := v.value(string(key)).(bool)
	return b
}

// Int reads a number.
func (v View) Int(key IntKey) int64 {
	n, _ := v.value(string(key)).(int64)
	return n
}

// Minor reads an amount.
func (v View) Minor(key MinorKey) money.Minor {
	n, _ := v.value(string(key)).(int64)
	return money.Minor(n)
}

// String reads a text.
func (v View) String(key TextKey) string {
	s, _ := v.value(string(key)).(string)
	return s
}

// List reads a list of texts.
func (v View) List(key ListKey) []string {
	l, _ := v.value(string(key)).([]string)
	return slices.Clone(l)
}

// value reads the scopes from the outermost to the innermost: the innermost value wins, within the caps
// of the outer ones. The default is no cap: it applies only until a value is set.
func (v View) value(key string) any {
	k, ok := Define(key)
	if !ok {
		return nil
	}
	result, set := k.Default, false
	for _, scope := range v.scopes {
		inner, ok := v.values[setting{key, scope}]
		switch {
		case !ok:
		case !set:
			result, set = inner, true
		default:
			result = k.capped(result, inner)
		}
	}
	return result
}

// capped is the inner value as far as the outer lets it.
func (k Key) capped(outer, inner any) any {
	switch k.Cap {
	case CapAll:
		return outer == true && inner == true
	case CapMax:
		return k.atMost(outer, inner)
	case CapMin:
		if o, i := whole(outer), whole(inner); i < o {
			return o
		}
	case CapNone:
	}
	return inner
}

func (k Key) atMost(outer, inner any) int64 {
	o, i := whole(outer), whole(inner)
	switch {
	case k.ZeroIsNone && o == 0:
		return i
	case k.ZeroIsNone && i == 0:
		return o // "no limit" inside a limit is that limit
	}
	return min(o, i)
}

func whole(v any) int64 {
	n, _ := v.(int64)
	return n
}

// Value is one setting, as people list them.
type Value struct {
	Key   string
	Scope Scope
	Value any
}

// Values lists the values that are set, by key and scope. Keys with their default are not in it.
func (s Snapshot) Values() []Value {
	out := make([]Value, 0, len(s.values))
	for at, v := range s.values {
		out = append(out, Value{at.key, at.scope, v})
	}
	slices.SortFunc(out, func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Scope, b.Scope))
	})
	return out
}

// ScopesOf lists the scopes of a level for which a value of the key is set.
func (s Snapshot) ScopesOf(key string, level Level) (scopes []Scope) {
	for at := range s.values {
		if at.key == key && at.scope.Level() == level {
			scopes = append(scopes, at.scope)
		}
	}
	return scopes
}

// With is the snapshot with one value set as Check returned it, or unset by nil.
func (s Snapshot) With(key string, scope Scope, value any) Snapshot {
	values := maps.Clone(s.values)
	if values == nil {
		values = map[setting]any{}
	}
	delete(values, setting{key, scope})
	if value != nil {
		values[setting{key, scope}] = value
	}
	s.values = values
	return s
}
