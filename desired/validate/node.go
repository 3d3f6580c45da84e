package validate

import (
	"encoding/json"
	"fmt"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/gpuaas/gpuaas/desired"
)

// node is a value of a YAML or JSON document with its place. Both readers return nodes, because neither
// encoding/json nor a decoded YAML value has places.
type node struct {
	at    spot
	value any // nil, bool, string, json.Number, []member or []node
}

// spot is a line and a column, which counts bytes as CUE does.
type spot struct{ line, column int32 }

type member struct {
	name  string
	at    spot // of the name
	value node
}

func (s spot) in(path string) place { return place{path, int(s.line), int(s.column)} }

// member finds a member of an object by its path; nil when there is none.
func (n *node) member(names ...string) (found *member) {
	for _, name := range names {
		members, _ := n.value.([]member)
		found = nil
		for i := range members {
			if members[i].name == name {
				found = &members[i]
			}
		}
		if found == nil {
			return nil
		}
		n = &found.value
	}
	return found
}

// plain returns the value as the JSON Schema library reads it. It reports false for a number with a
// point or an exponent: JSON Schema takes 1.0 for an integer, CUE does not, and no kind has such a field.
func (n *node) plain() (any, bool) {
	switch v := n.value.(type) {
	case json.Number:
		return v, !strings.ContainsAny(string(v), ".eE")
	case []node:
		list := make([]any, len(v))
		for i := range v {
			item, ok := v[i].plain()
			if !ok {
				return nil, false
			}
			list[i] = item
		}
		return list, true
	case []member:
		object := make(map[string]any, len(v))
		for i := range v {
			value, ok := v[i].value.plain()
			if !ok {
				return nil, false
			}
			object[v[i].name] = value
		}
		return object, true
	}
	return n.value, true
}

// mostValues of one document are far more than any kind has. Explaining a finding takes CUE time by the
// square of them.
const mostValues = 5000

// unfit finds what need not go to CUE: a document that is no object, or that has very many values.
func (n *node) unfit(at place) *desired.Finding {
	var f desired.Finding
	switch _, ok := n.value.([]member); {
	case !ok:
		f = at.finding(desired.CodeNotAnObject, "", "", "is "+n.shown()+", not an object", "a document with apiVersion, kind, metadata and spec")
	case n.count(mostValues) > mostValues:
		f = at.finding(desired.CodeEvaluationLimit, "", "", fmt.Sprintf("has more than %d values", mostValues), "objects as the kinds describe them")
	default:
		return nil
	}
	return &f
}

// count counts the values, up to a limit.
func (n *node) count(most int) int {
	total := 1
	switch v := n.value.(type) {
	case []member:
		for i := 0; i < len(v) && total <= most; i++ {
			total += v[i].value.count(most - total)
		}
	case []node:
		for i := 0; i < len(v) && total <= most; i++ {
			total += v[i].count(most - total)
		}
	}
	return total
}

// shown returns the value as findings show it.
func (n *node) shown() string {
	switch v := n.value.(type) {
	case nil:
		return "empty"
	case string:
		return shownText(v)
	case []node:
		if len(v) == 0 {
			return "an empty list"
		}
		return "a list"
	case []member:
		return "an object"
	}
	return fmt.Sprint(n.value)
}

// expr returns a document as CUE's syntax, with the places of the author's file.
func (l lines) expr(n *node) ast.Expr {
	basic := func(kind token.Token, text string) ast.Expr {
		return &ast.BasicLit{ValuePos: l.pos(n.at), Kind: kind, Value: text}
	}
	switch v := n.value.(type) {
	case bool:
		if v {
			return basic(token.TRUE, "true")
		}
		return basic(token.FALSE, "false")
	case string:
		return basic(token.STRING, literal.String.Quote(v))
	case json.Number:
		kind := token.INT
		if strings.ContainsAny(string(v), ".eE") {
			kind = token.FLOAT
		}
		if positive, negative := strings.CutPrefix(string(v), "-"); negative {
			// CUE has no negative literals, only the operator.
			return &ast.UnaryExpr{OpPos: l.pos(n.at), Op: token.SUB, X: basic(kind, positive)}
		}
		return basic(kind, string(v))
	case []node:
		list := &ast.ListLit{Lbrack: l.pos(n.at)}
		for i := range v {
			list.Elts = append(list.Elts, l.expr(&v[i]))
		}
		return list
	case []member:
		s := &ast.StructLit{Lbrace: l.pos(n.at)}
		for i := range v {
			s.Elts = append(s.Elts, &ast.Field{
				Label: &ast.BasicLit{ValuePos: l.pos(v[i].at), Kind: token.STRING, Value: literal.String.Quote(v[i].name)},
				Value: l.expr(&v[i].value),
			})
		}
		return s
	}
	return basic(token.NULL, "null")
}
