package definition

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"
)

// Expectation describes the expected value: the sentence of the schema, or one made of the type,
// the bounds and the enumeration.
func Expectation(v cue.Value) string {
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
		if words := Alternatives(v); len(words) > 1 {
			return OneOf(words)
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

// Alternatives lists the values of an enumeration once each. It returns nothing for another type.
func Alternatives(v cue.Value) []string {
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
		inner := Alternatives(cue.Dereference(a))
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

// OneOf joins the alternatives of a choice.
func OneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}
