package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	schema "github.com/gpuaas/gpuaas/cue"
)

// reader turns the syntax of the schema into forms.
type reader struct {
	definitions map[string]ast.Expr
	forms       map[string]form // of definitions
	reading     map[string]bool
	patterns    []string
	structs     []*object
}

// object is a struct of the schema, which becomes one function.
type object struct {
	name   string
	fields []field
	// Of one whose names are the author's.
	names  *form
	values *form
}

type field struct {
	name     string
	required bool
	optional bool
	form     form
	// Where another field decides.
	when *condition
	then form
	els  form
}

type condition struct {
	field string
	equal string // text
}

func newReader() (*reader, error) {
	r := &reader{definitions: map[string]ast.Expr{}, forms: map[string]form{}, reading: map[string]bool{}}
	names, err := fs.Glob(schema.Schema, "schema/*.cue")
	if err != nil {
		return nil, fmt.Errorf("reading embedded schema: %w", err)
	}
	for _, name := range names {
		src, err := schema.Schema.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading embedded schema: %w", err)
		}
		f, err := parser.ParseFile(name, src)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.Field); ok {
				label, _, err := ast.LabelName(d.Label)
				if err != nil || r.definitions[label] != nil {
					return nil, unknown(d, "a label that is no name, or is there twice")
				}
				r.definitions[label] = d.Value
			}
		}
	}
	return r, nil
}

func unknown(n ast.Node, what string) error {
	return fmt.Errorf("%s: %s: teach desired/validate/gen", n.Pos(), what)
}

// form reads an expression. at names the functions of structs within it.
func (r *reader) form(at string, e ast.Expr) (form, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return r.form(at, e.X)
	case *ast.BasicLit:
		return literalForm(e)
	case *ast.Ident:
		return r.ident(e)
	case *ast.BinaryExpr:
		return r.binary(at, e)
	case *ast.UnaryExpr:
		return r.unary(at, e)
	case *ast.ListLit:
		return r.list(at, e)
	case *ast.StructLit:
		return r.object(at, e)
	case *ast.SelectorExpr:
		return selector(e)
	case *ast.CallExpr:
		return call(e)
	}
	return form{}, unknown(e, fmt.Sprintf("%T", e))
}

func literalForm(e *ast.BasicLit) (form, error) {
	switch e.Kind {
	case token.STRING:
		text, err := literal.Unquote(e.Value)
		if err != nil {
			return form{}, unknown(e, err.Error())
		}
		raw, err := json.Marshal(text)
		if err != nil {
			return form{}, unknown(e, err.Error())
		}
		return single(alt{kind: textKind, literal: strconv.Quote(text), json: string(raw)}), nil
	case token.INT:
		n, err := integer(e)
		if err != nil {
			return form{}, err
		}
		text := strconv.FormatInt(n, 10)
		return single(alt{kind: intKind, literal: text, json: text}), nil
	case token.TRUE, token.FALSE:
		return single(alt{kind: boolKind, literal: e.Value, json: e.Value}), nil
	}
	return form{}, unknown(e, "a literal "+e.Value)
}

func integer(e ast.Expr) (int64, error) {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return 0, unknown(e, "a bound that is no number")
	}
	var info literal.NumInfo
	if err := literal.ParseNum(lit.Value, &info); err != nil || !info.IsInt() {
		return 0, unknown(e, "a bound that is no integer")
	}
	n, err := strconv.ParseInt(info.String(), 10, 64)
	if err != nil {
		return 0, unknown(e, err.Error())
	}
	return n, nil
}

func (r *reader) ident(e *ast.Ident) (form, error) {
	switch e.Name {
	case "_":
		return single(alt{kind: anyKind}), nil
	case "bool":
		return single(alt{kind: boolKind}), nil
	case "int":
		return single(alt{kind: intKind}), nil
	case "string":
		return single(alt{kind: textKind}), nil
	}
	return r.definition(e)
}

func (r *reader) definition(e *ast.Ident) (form, error) {
	if f, ok := r.forms[e.Name]; ok {
		return f, nil
	}
	value := r.definitions[e.Name]
	if value == nil || r.reading[e.Name] {
		return form{}, unknown(e, "a reference to "+e.Name)
	}
	r.reading[e.Name] = true
	f, err := r.form(functionName(e.Name), value)
	r.forms[e.Name] = f
	return f, err
}

func (r *reader) binary(at string, e *ast.BinaryExpr) (form, error) {
	x, err := r.form(at, e.X)
	if err != nil {
		return form{}, err
	}
	y, err := r.form(at, e.Y)
	if err != nil {
		return form{}, err
	}
	var f form
	switch e.Op {
	case token.OR:
		f, err = x.or(y)
	case token.AND:
		f, err = x.and(y)
	default:
		return form{}, unknown(e, "the operator "+e.Op.String())
	}
	if err != nil {
		return form{}, unknown(e, err.Error())
	}
	return f, nil
}

func (r *reader) unary(at string, e *ast.UnaryExpr) (form, error) {
	switch e.Op {
	case token.MUL:
		f, err := r.form(at, e.X)
		if err != nil || len(f.alts) != 1 || f.def != nil {
			return form{}, unknown(e, "a default that is not one value")
		}
		f.def = &deflt{json: f.alts[0].json, path: f.alts[0].path}
		if f.def.json == "" && f.def.path == nil {
			return form{}, unknown(e, "a default that is no literal")
		}
		return f, nil
	case token.MAT, token.NMAT:
		lit, ok := e.X.(*ast.BasicLit)
		if !ok {
			return form{}, unknown(e, "a pattern that is no literal")
		}
		source, err := literal.Unquote(lit.Value)
		if err != nil {
			return form{}, unknown(e, err.Error())
		}
		test := fmt.Sprintf("pattern%d.match(n.text)", r.pattern(source))
		if e.Op == token.NMAT {
			test = "!" + test
		}
		return single(alt{kind: textKind, checks: []string{test}}), nil
	case token.GEQ, token.LEQ:
		n, err := integer(e.X)
		if err != nil {
			return form{}, err
		}
		if e.Op == token.GEQ {
			return single(alt{kind: numberKind, low: &n}), nil
		}
		return single(alt{kind: numberKind, high: &n}), nil
	}
	return form{}, unknown(e, "the operator "+e.Op.String())
}

func (r *reader) pattern(source string) int {
	if i := slices.Index(r.patterns, source); i >= 0 {
		return i
	}
	r.patterns = append(r.patterns, source)
	return len(r.patterns) - 1
}

// list reads [...T], [_, ...] and a list of literals.
func (r *reader) list(at string, e *ast.ListLit) (form, error) {
	a := alt{kind: listKind}
	open := false
	var literals []string
	for i, element := range e.Elts {
		if more, ok := element.(*ast.Ellipsis); ok && i == len(e.Elts)-1 {
			open = true
			if more.Type != nil {
				f, err := r.form(at+"Item", more.Type)
				if err != nil {
					return form{}, err
				}
				a.item = &f
			}
			continue
		}
		f, err := r.form(at, element)
		if err != nil {
			return form{}, err
		}
		if f.bare() && f.alts[0].kind == anyKind {
			a.least++
			continue
		}
		if len(f.alts) != 1 || f.alts[0].kind != textKind || f.alts[0].literal == "" {
			return form{}, unknown(element, "an element that is no text")
		}
		a.texts, literals = append(a.texts, f.alts[0].literal), append(literals, f.alts[0].json)
	}
	switch {
	case open && a.texts != nil, !open && a.texts == nil, a.least > 0 && a.item != nil:
		return form{}, unknown(e, "a list of mixed elements")
	case !open:
		a.json = "[" + strings.Join(literals, ",") + "]"
	}
	return single(a), nil
}

// selector reads time.Time, or the path to another field of the document.
func selector(e *ast.SelectorExpr) (form, error) {
	x, ok := e.X.(*ast.Ident)
	name, _, err := ast.LabelName(e.Sel)
	switch {
	case !ok || err != nil:
		return form{}, unknown(e, "a reference")
	case x.Name == "time" && name == "Time":
		return single(alt{kind: textKind, checks: []string{"isTime(n.text)"}}), nil
	case x.Name == "metadata" && name == "name": // required text, wherever the reference stands
		return single(alt{kind: textKind, path: []string{x.Name, name}}), nil
	}
	return form{}, unknown(e, "a reference to "+x.Name+"."+name)
}

func call(e *ast.CallExpr) (form, error) {
	f, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || len(e.Args) != 1 {
		return form{}, unknown(e, "a call")
	}
	x, _ := f.X.(*ast.Ident)
	name, _, err := ast.LabelName(f.Sel)
	if x == nil || err != nil || x.Name+"."+name != "strings.MaxRunes" {
		return form{}, unknown(e, "a call")
	}
	n, err := integer(e.Args[0])
	if err != nil {
		return form{}, err
	}
	return single(alt{kind: textKind, checks: []string{fmt.Sprintf("maxRunes(n.text, %d)", n)}}), nil
}
