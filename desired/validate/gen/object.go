package main

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// object reads a struct, which becomes a function of that name.
func (r *reader) object(at string, e *ast.StructLit) (form, error) {
	o := &object{name: at}
	var branches []*ast.Comprehension
	for _, d := range e.Elts {
		switch d := d.(type) {
		case *ast.Field:
			if err := r.field(o, at, d); err != nil {
				return form{}, err
			}
		case *ast.Comprehension:
			branches = append(branches, d)
		case *ast.CommentGroup, *ast.Attribute:
		default:
			return form{}, unknown(d, "a declaration within a struct")
		}
	}
	for _, b := range branches {
		if err := r.branch(o, at, b); err != nil {
			return form{}, err
		}
	}
	if (o.names != nil) == (len(o.fields) > 0) {
		return form{}, unknown(e, "a struct with both fields and a pattern, or neither")
	}
	slices.SortFunc(o.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	r.structs = append(r.structs, o)
	return single(alt{kind: objectKind, function: at}), nil
}

func (r *reader) field(o *object, at string, d *ast.Field) error {
	if label, ok := d.Label.(*ast.ListLit); ok { // [name]: value
		if len(label.Elts) != 1 || o.names != nil {
			return unknown(d, "a pattern")
		}
		names, err := r.form(at+"Name", label.Elts[0])
		if err != nil {
			return err
		}
		values, err := r.form(at+"Value", d.Value)
		o.names, o.values = &names, &values
		return err
	}
	name, _, err := ast.LabelName(d.Label)
	if err != nil {
		return unknown(d, err.Error())
	}
	f := field{name: name}
	switch d.Constraint {
	case token.NOT:
		f.required = true
	case token.OPTION:
		f.optional = true
	}
	if f.form, err = r.form(at+capital(name), d.Value); err != nil {
		return err
	}
	o.fields = append(o.fields, f)
	return nil
}

// branch reads if FIELD == "text" {…} and if FIELD != "text" {…}. Each may
// constrain fields that the struct has.
func (r *reader) branch(o *object, at string, c *ast.Comprehension) error {
	clause, _ := c.Clauses[0].(*ast.IfClause)
	body, _ := c.Value.(*ast.StructLit)
	if clause == nil || body == nil || len(c.Clauses) != 1 {
		return unknown(c, "a comprehension")
	}
	test, _ := clause.Condition.(*ast.BinaryExpr)
	if test == nil || test.Op != token.EQL && test.Op != token.NEQ {
		return unknown(c, "a condition")
	}
	x, _ := test.X.(*ast.Ident)
	y, _ := test.Y.(*ast.BasicLit)
	if x == nil || y == nil || y.Kind != token.STRING {
		return unknown(c, "a condition")
	}
	text, err := literal.Unquote(y.Value)
	if err != nil {
		return unknown(c, err.Error())
	}
	for _, d := range body.Elts {
		inner, ok := d.(*ast.Field)
		if !ok {
			return unknown(d, "a declaration under a condition")
		}
		if err := r.decided(o, at, inner, condition{x.Name, text}, test.Op == token.EQL); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) decided(o *object, at string, d *ast.Field, when condition, holds bool) error {
	name, _, err := ast.LabelName(d.Label)
	i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == name })
	if err != nil || i < 0 || o.fields[i].optional || o.fields[i].required {
		return unknown(d, "a conditional field that the struct does not have")
	}
	f := &o.fields[i]
	if f.when == nil {
		f.when, f.then, f.els = &when, f.form, f.form
	}
	if *f.when != when {
		return unknown(d, "a second condition")
	}
	more, err := r.form(at+capital(name), d.Value)
	if err != nil {
		return err
	}
	branch := &f.els
	if holds {
		branch = &f.then
	}
	if *branch, err = branch.and(more); err != nil {
		return unknown(d, err.Error())
	}
	return nil
}

func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// functionName of a definition: #SKU is checkSKU.
func functionName(definition string) string { return "check" + strings.TrimPrefix(definition, "#") }
