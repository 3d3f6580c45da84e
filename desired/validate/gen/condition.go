package main

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/gpuaas/gpuaas/desired/validate/definition"
)

// condition is a field of a struct that decides about other fields: if onboarding == "simulated" {…}.
type condition struct {
	field   string
	decided []string
	read    bool
}

func (c *condition) decides(field string) bool { return c != nil && slices.Contains(c.decided, field) }

// readConditions finds all comprehensions of the definitions. One of another form is an error: values do
// not show them, so that the schema would accept what CUE rejects.
func readConditions(files []*ast.File) (map[string]*condition, error) {
	all := map[string]*condition{}
	for _, f := range files {
		var path []string
		var failed error
		ast.Walk(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				name, _, _ := ast.LabelName(n.Label) // a pattern has none
				path = append(path, name)
			case *ast.Comprehension:
				at := strings.Join(path, ".")
				if all[at] == nil {
					all[at] = &condition{}
				}
				if failed == nil {
					failed = all[at].add(n)
				}
				return false
			}
			return true
		}, func(n ast.Node) {
			if _, ok := n.(*ast.Field); ok {
				path = path[:len(path)-1]
			}
		})
		if failed != nil {
			return nil, failed
		}
	}
	return all, nil
}

// add reads if FIELD == "text" {…} or if FIELD != "text" {…}.
func (c *condition) add(n *ast.Comprehension) error {
	failure := fmt.Errorf("%s: a comprehension: teach desired/validate/gen", n.Pos())
	if len(n.Clauses) != 1 {
		return failure
	}
	clause, _ := n.Clauses[0].(*ast.IfClause)
	body, _ := n.Value.(*ast.StructLit)
	if clause == nil || body == nil {
		return failure
	}
	test, _ := clause.Condition.(*ast.BinaryExpr)
	if test == nil || test.Op != token.EQL && test.Op != token.NEQ {
		return failure
	}
	field, _ := test.X.(*ast.Ident)
	if _, literal := test.Y.(*ast.BasicLit); field == nil || !literal || c.field != "" && c.field != field.Name {
		return failure
	}
	c.field = field.Name
	for _, d := range body.Elts {
		inner, ok := d.(*ast.Field)
		if !ok {
			return failure
		}
		name, _, err := ast.LabelName(inner.Label)
		if err != nil {
			return failure
		}
		if !slices.Contains(c.decided, name) {
			c.decided = append(c.decided, name)
		}
	}
	return nil
}

// branches evaluates, for each value of the deciding field, the constraints of the other fields.
func (c *condition) branches(all *converter, at string, v cue.Value) ([]any, error) {
	c.read = true
	by := v.LookupPath(cue.MakePath(cue.Str(c.field)))
	usual, err := func() (string, error) { d, _ := by.Default(); return d.String() }()
	words := definition.Alternatives(by)
	if err != nil || len(words) < 2 {
		return nil, unknown(at, by, "the deciding field")
	}
	var branches []any
	for _, word := range words {
		decided, properties, required := v.FillPath(cue.MakePath(cue.Str(c.field)), word), object{}, []string{}
		for _, name := range c.decided {
			field := decided.LookupPath(cue.MakePath(cue.Str(name)))
			s, err := all.schema(at+"."+name, field)
			if err != nil {
				return nil, err
			}
			if _, there := s["default"]; !there {
				required = append(required, name)
			}
			delete(s, "description")
			properties[name] = s
		}
		when, then := object{"properties": object{c.field: object{"const": word}}}, object{"properties": properties}
		if word != usual {
			when["required"] = []string{c.field}
		}
		if len(required) > 0 {
			then["required"] = required
		}
		branches = append(branches, object{"if": when, "then": then})
	}
	return branches, nil
}

// unread fails if a condition belongs to no struct that was converted.
func (c *converter) unread() error {
	for at, condition := range c.conditions {
		if !condition.read {
			return fmt.Errorf("%s: a comprehension in a definition of its own: teach desired/validate/gen", at)
		}
	}
	return nil
}
