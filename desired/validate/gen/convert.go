package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
)

type object = map[string]any

// converter turns definitions into JSON Schema.
type converter struct {
	conditions map[string]*condition  // by the path of their struct, as #Node.spec
	describe   func(cue.Value) string // the description of a field
	messages   bool                   // patterns have the message of their findings, for clients
}

func unknown(at string, v cue.Value, what string) error {
	return fmt.Errorf("%s (%v): %s %v: teach desired/validate/gen", at, v.Pos(), what, v)
}

// schema converts the constraints of a field, with its description and default.
func (c *converter) schema(at string, v cue.Value) (object, error) {
	s, err := c.constraint(at, v)
	if err != nil {
		return nil, err
	}
	s = maps.Clone(s)
	if text := c.describe(v); text != "an object with fields" && text != "" {
		s["description"] = text
	}
	if text := expectedText(v); c.messages && text != "" {
		addMessage(s, text)
	}
	if d, _ := v.Default(); d.Kind() != cue.StructKind && d.Validate(cue.Concrete(true)) == nil {
		if s["default"], err = plain(d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// constraint converts an expression.
func (c *converter) constraint(at string, v cue.Value) (object, error) {
	v = cue.Dereference(v)
	op, args := v.Expr()
	switch op {
	case cue.AndOp:
		return c.all(at, args)
	case cue.OrOp:
		return c.any(at, args)
	case cue.RegexMatchOp, cue.NotRegexMatchOp:
		return pattern(op, args[0])
	case cue.GreaterThanEqualOp, cue.LessThanEqualOp:
		n, err := plain(args[0])
		if err != nil || len(args) != 1 || args[0].Kind() != cue.IntKind {
			return nil, unknown(at, v, "the bound")
		}
		return object{map[cue.Op]string{cue.GreaterThanEqualOp: "minimum", cue.LessThanEqualOp: "maximum"}[op]: n}, nil
	case cue.CallOp:
		n, err := plain(args[len(args)-1])
		if err != nil || len(args) != 2 {
			return nil, unknown(at, v, "the call")
		}
		switch fmt.Sprint(args[0]) {
		case "strings.MaxRunes":
			return object{"type": "string", "maxLength": n}, nil
		case "list.MaxItems":
			return object{"type": "array", "maxItems": n}, nil
		}
		return nil, unknown(at, v, "the call")
	case cue.NoOp:
		// Expr leaves out a default that another alternative accepts.
		if len(args) == 1 && fmt.Sprint(args[0]) != fmt.Sprint(v) {
			return c.constraint(at, args[0])
		}
		return c.value(at, v)
	}
	return nil, unknown(at, v, "the operator "+op.String()+" of")
}

// all converts constraints that must all be true.
func (c *converter) all(at string, args []cue.Value) (object, error) {
	joined, rest := object{}, []any{}
	for _, a := range args {
		s, err := c.constraint(at, a)
		if err != nil {
			return nil, err
		}
		if conflict(joined, s) {
			if hasFields(s) {
				return nil, unknown(at, a, "the conjunction with the struct")
			}
			rest = append(rest, s)
			continue
		}
		maps.Copy(joined, s)
	}
	if len(rest) > 0 {
		joined["allOf"] = rest
	}
	return joined, nil
}

// conflict reports whether two schemas set one keyword to different values.
func conflict(a, b object) bool {
	for name, value := range b {
		if before, there := a[name]; there && fmt.Sprint(before) != fmt.Sprint(value) {
			return true
		}
	}
	return false
}

// any joins alternatives.
func (c *converter) any(at string, args []cue.Value) (object, error) {
	var choices, words []any
	for _, a := range args {
		if isName(a) {
			continue // every name is a display name: the other alternative accepts it
		}
		s, err := c.constraint(at, a)
		if err != nil {
			return nil, err
		}
		if hasFields(s) {
			return nil, unknown(at, a, "the alternative with the struct")
		}
		if word, ok := s["const"]; ok && len(s) == 1 {
			s = nil
			if !contains(words, word) {
				words = append(words, word)
			}
		} else if list, ok := s["enum"].([]any); ok {
			s = nil
			for _, word := range list {
				if !contains(words, word) {
					words = append(words, word)
				}
			}
		}
		if s != nil && !contains(choices, s) {
			choices = append(choices, s)
		}
	}
	if len(words) > 0 {
		choices = append(choices, object{"enum": words})
	}
	if len(choices) == 1 {
		return choices[0].(object), nil //nolint:forcetypeassert // made above
	}
	return object{"anyOf": choices}, nil
}

// hasFields reports whether a schema has fields. Validation fills in defaults on one path only, so that
// fields cannot be among alternatives.
func hasFields(s object) bool {
	items, _ := s["items"].(object)
	return s["type"] == "object" || items != nil && hasFields(items)
}

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return fmt.Sprintf("%#v", other) == fmt.Sprintf("%#v", v) })
}

// isName reports whether a value is the reference metadata.name, the default of a display name.
// Validation fills it in by itself.
func isName(v cue.Value) bool {
	_, path := v.ReferencePath()
	return strings.HasSuffix(path.String(), ".metadata.name")
}

func pattern(op cue.Op, source cue.Value) (object, error) {
	text, err := source.String()
	if err != nil {
		return nil, unknown("a pattern", source, "the expression")
	}
	// The same class, as Go and as ECMAScript write it. Editors use the second.
	text = strings.NewReplacer(`\\`, `\\`, `\PC`, `\P{C}`, `\pC`, `\p{C}`).Replace(text)
	if op == cue.NotRegexMatchOp {
		return object{"type": "string", "not": object{"pattern": text}}, nil
	}
	return object{"type": "string", "pattern": text}, nil
}

// value converts what is no expression: a type, a struct, a list or a concrete value.
func (c *converter) value(at string, v cue.Value) (object, error) {
	switch kind := v.IncompleteKind(); {
	case kind == cue.StructKind:
		return c.object(at, v)
	case kind == cue.ListKind && v.LookupPath(cue.MakePath(cue.AnyIndex)).Exists():
		return c.list(at, v)
	case v.IsConcrete():
		word, err := plain(v)
		return object{"const": word}, err
	}
	switch fmt.Sprint(v) {
	case "_":
		return object{}, nil
	case "bool":
		return object{"type": "boolean"}, nil
	case "uint":
		return object{"type": "integer", "minimum": 0}, nil
	case "int":
		return object{"type": "integer"}, nil
	case "string":
		return object{"type": "string"}, nil
	case "time.Time", "time.Time()":
		return object{"type": "string", "format": "date-time"}, nil
	}
	return nil, unknown(at, v, "the value")
}

func (c *converter) list(at string, v cue.Value) (object, error) {
	s := object{"type": "array"}
	items, err := v.List()
	if err != nil {
		return nil, unknown(at, v, "the list")
	}
	least := 0
	for ; items.Next(); least++ {
		if fmt.Sprint(items.Value()) != "_" {
			return nil, unknown(at, v, "the list with elements of different types")
		}
	}
	if least > 0 {
		s["minItems"] = least
	}
	element, err := c.schema(at+".*", v.LookupPath(cue.MakePath(cue.AnyIndex)))
	if err != nil || len(element) == 0 {
		return s, err
	}
	s["items"] = element
	return s, nil
}

func (c *converter) object(at string, v cue.Value) (object, error) {
	s, properties, required := object{"type": "object"}, object{}, []string{}
	s["additionalProperties"] = false
	fields, err := v.Fields(cue.Optional(true), cue.Patterns(true))
	if err != nil {
		return nil, unknown(at, v, "the struct")
	}
	decided := c.conditions[at]
	for fields.Next() {
		sel := fields.Selector()
		if sel.ConstraintType() == cue.PatternConstraint {
			if s["additionalProperties"] != false {
				return nil, unknown(at, v, "the struct with two patterns")
			}
			if err := c.names(at, s, sel.Pattern(), fields.Value()); err != nil {
				return nil, err
			}
			continue
		}
		name := sel.Unquoted()
		if decided.decides(name) {
			properties[name] = object{"description": c.describe(fields.Value())}
			continue
		}
		field, err := c.schema(at+"."+name, fields.Value())
		if err != nil {
			return nil, err
		}
		switch {
		case sel.ConstraintType() == cue.RequiredConstraint, sel.ConstraintType() != cue.OptionalConstraint && field["required"] != nil:
			required = append(required, name)
		case sel.ConstraintType() != cue.OptionalConstraint:
			if err := fill(at+"."+name, field, fields.Value()); err != nil {
				return nil, err
			}
		}
		if sel.ConstraintType() == cue.OptionalConstraint || sel.ConstraintType() == cue.RequiredConstraint {
			delete(field, "default") // CUE fills in neither
		}
		properties[name] = field
	}
	if patterned := s["additionalProperties"] != false; patterned && len(properties) > 0 || !patterned && v.Allows(cue.AnyString) {
		return nil, unknown(at, v, "the open struct")
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if decided != nil {
		s["allOf"], err = decided.branches(c, at, v)
	}
	return s, err
}

// fill sets what an absent field of a struct becomes. A field that CUE computes is marked.
func fill(at string, field object, v cue.Value) error {
	if _, there := field["default"]; there {
		return nil
	}
	if field["type"] == "object" {
		field["default"] = object{}
		return nil
	}
	_, args := v.Expr()
	if slices.ContainsFunc(args, isName) {
		field[nameDefault] = true
		return nil
	}
	return unknown(at, v, "no default for")
}

// nameDefault marks a field whose default is the name of the object.
const nameDefault = "x-default-name"

// names converts a struct whose names are the author's, such as labels.
func (c *converter) names(at string, s object, names, values cue.Value) error {
	value, err := c.schema(at+".*", values)
	if err != nil {
		return err
	}
	name, err := c.constraint(at, names)
	if err != nil {
		return err
	}
	s["additionalProperties"] = value
	if len(name) > 1 {
		s["propertyNames"] = name
	}
	return nil
}

// plain returns a concrete value as JSON has it.
func plain(v cue.Value) (any, error) {
	text, err := v.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading %v: %w", v, err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var out any
	err = d.Decode(&out)
	return out, err
}
