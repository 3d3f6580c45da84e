package document

import (
	"encoding/json"
	"fmt"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// Node is a value of a YAML or JSON document with its place. Both readers return nodes, because neither
// encoding/json nor a decoded YAML value has places.
type Node struct {
	At    Spot
	Value any // nil, bool, string, json.Number, []member or []node
}

// Spot is a line and a column, which counts bytes as CUE does.
type Spot struct{ Line, Column int32 }

type Member struct {
	Name  string
	At    Spot // of the name
	Value Node
}

// In returns the position in a file.
func (s Spot) In(path string) Place { return Place{path, int(s.Line), int(s.Column)} }

// Member finds a member of an object by its path; nil when there is none.
func (n *Node) Member(names ...string) (found *Member) {
	for _, name := range names {
		members, _ := n.Value.([]Member)
		found = nil
		for i := range members {
			if members[i].Name == name {
				found = &members[i]
			}
		}
		if found == nil {
			return nil
		}
		n = &found.Value
	}
	return found
}

// Plain returns the value as the JSON Schema library reads it. It reports false for a number with a
// point or an exponent: JSON Schema treats 1.0 as an integer, CUE does not, and no kind has such a
// field.
func (n *Node) Plain() (any, bool) {
	switch v := n.Value.(type) {
	case json.Number:
		return v, !strings.ContainsAny(string(v), ".eE")
	case []Node:
		list := make([]any, len(v))
		for i := range v {
			item, ok := v[i].Plain()
			if !ok {
				return nil, false
			}
			list[i] = item
		}
		return list, true
	case []Member:
		object := make(map[string]any, len(v))
		for i := range v {
			value, ok := v[i].Value.Plain()
			if !ok {
				return nil, false
			}
			object[v[i].Name] = value
		}
		return object, true
	}
	return n.Value, true
}

// Count counts the values, up to a limit.
func (n *Node) Count(most int) int {
	total := 1
	switch v := n.Value.(type) {
	case []Member:
		for i := 0; i < len(v) && total <= most; i++ {
			total += v[i].Value.Count(most - total)
		}
	case []Node:
		for i := 0; i < len(v) && total <= most; i++ {
			total += v[i].Count(most - total)
		}
	}
	return total
}

// Format formats the value for findings.
func (n *Node) Format() string {
	switch v := n.Value.(type) {
	case nil:
		return "empty"
	case string:
		return ShownText(v)
	case []Node:
		if len(v) == 0 {
			return "an empty list"
		}
		return "a list"
	case []Member:
		return "an object"
	}
	return fmt.Sprint(n.Value)
}

// Expr returns a document as CUE's syntax, with the places of the author's file.
func (l Lines) Expr(n *Node) ast.Expr {
	basic := func(kind token.Token, text string) ast.Expr {
		return &ast.BasicLit{ValuePos: l.pos(n.At), Kind: kind, Value: text}
	}
	switch v := n.Value.(type) {
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
			return &ast.UnaryExpr{OpPos: l.pos(n.At), Op: token.SUB, X: basic(kind, positive)}
		}
		return basic(kind, string(v))
	case []Node:
		list := &ast.ListLit{Lbrack: l.pos(n.At)}
		for i := range v {
			list.Elts = append(list.Elts, l.Expr(&v[i]))
		}
		return list
	case []Member:
		s := &ast.StructLit{Lbrace: l.pos(n.At)}
		for i := range v {
			s.Elts = append(s.Elts, &ast.Field{
				Label: &ast.BasicLit{ValuePos: l.pos(v[i].At), Kind: token.STRING, Value: literal.String.Quote(v[i].Name)},
				Value: l.Expr(&v[i].Value),
			})
		}
		return s
	}
	return basic(token.NULL, "null")
}
