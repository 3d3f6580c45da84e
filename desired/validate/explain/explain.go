package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/definition"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// explainer turns the evaluator's errors about one object into findings: one for each field, with
// the text of the schema, at the position of the author's value.
type explainer struct {
	at         document.Place
	object     string
	value      cue.Value // as the author wrote it, before the schema
	definition cue.Value
	fields     Fields
	findings   []desired.Finding
}

// unknownFields searches for unknown fields itself. The evaluator omits them if the struct has
// another error, and the author would find them one by one.
func (e *explainer) unknownFields(at []string, v cue.Value) {
	k, ok := e.fields[pattern(at)]
	if !ok {
		return
	}
	switch v.IncompleteKind() {
	case cue.ListKind:
		items, err := v.List()
		for i := 0; err == nil && items.Next(); i++ {
			e.unknownFields(append(slices.Clone(at), strconv.Itoa(i)), items.Value())
		}
		return
	case cue.StructKind:
	default:
		return
	}
	if k.open {
		e.freeNames(at, v)
		return
	}
	it, err := v.Fields()
	if err != nil {
		return
	}
	for it.Next() {
		name := it.Selector().Unquoted()
		inner := append(slices.Clone(at), name)
		if slices.Contains(k.Fields, name) {
			e.unknownFields(inner, it.Value())
			continue
		}
		expected := definition.OneOf(k.Fields)
		code, message := desired.CodeUnknownField, "unknown field"
		if len(at) == 0 && name == "status" {
			code, message, expected = desired.CodeStatusDeclared, "status is observed, never declared", "no status"
		}
		e.add(code, document.PlaceOf(it.Value(), e.at), strings.Join(inner, "."), message, expected)
	}
}

// freeNames checks the names in a struct whose names are the author's: labels.
func (e *explainer) freeNames(at []string, v cue.Value) {
	path := make([]cue.Selector, len(at))
	for i, p := range at {
		path[i] = cue.Str(p).Optional()
	}
	free := e.definition.LookupPath(cue.MakePath(path...))
	for name, inner := range EachField(v) {
		if free.Exists() && !free.Allows(cue.Str(name)) {
			e.add(desired.CodeInvalidName, document.PlaceOf(inner, e.at), strings.Join(append(slices.Clone(at), name), "."), "the name "+document.Quoted(name)+" is not allowed", e.fields[pattern(at)].expected)
		}
	}
}

// Explain returns a finding for each fault of an object that the evaluator rejected with err.
func Explain(at document.Place, object string, v, definition cue.Value, fields Fields, err error) []desired.Finding {
	e := explainer{at: at, object: object, value: v, definition: definition, fields: fields}
	e.unknownFields(nil, v)
	e.read(err)
	return e.findings
}

// read reads the evaluator's errors. Several may be about one field: a
// disjunction reports each of its branches.
func (e *explainer) read(err error) {
	var computed [][]string
	for _, one := range errors.Errors(err) {
		path := fieldOf(one.Path())
		field := strings.Join(path, ".")
		if e.reported(field) {
			continue
		}
		k, listed := e.fields[pattern(path)]
		v := e.value.LookupPath(pathOf(path))
		switch {
		case !v.Exists() && !k.required:
			computed = append(computed, path)
		case !v.Exists():
			e.add(desired.CodeMissingField, e.nearest(path), field, "is missing", k.expected)
		case !listed:
			// Below a field of free names: a label, an annotation.
			around := e.fields[pattern(path[:len(path)-1])]
			e.reject(field, v, fieldText{expected: around.element, kind: around.elements})
		case !v.IsConcrete() && v.IncompleteKind() != cue.StructKind && v.IncompleteKind() != cue.ListKind:
			e.add(desired.CodeNotConcrete, document.PlaceOf(v, e.at), field, "has no value yet", k.expected)
		default:
			e.reject(field, v, k)
		}
	}
	// The schema computes these from other fields; with those mended they may
	// well be there.
	if len(e.findings) == 0 {
		for _, path := range computed {
			e.add(desired.CodeMissingField, e.nearest(path), strings.Join(path, "."), "is missing", e.fields[pattern(path)].expected)
		}
	}
}

// reject adds a finding with the value and the expected type. It never repeats a secret.
func (e *explainer) reject(field string, v cue.Value, k fieldText) {
	code, message := desired.CodeInvalidValue, "is "+Format(v)
	text, err := v.String()
	switch {
	case k.secret || err == nil && password.MatchString(text):
		code, message = desired.CodeSecretInClear, "may contain a secret, and is not printed"
	case v.IncompleteKind()&k.kind == 0:
		code = desired.CodeWrongType
	case k.kind&cue.NumberKind != 0 && v.IncompleteKind()&cue.NumberKind != 0:
		code = desired.CodeOutOfRange
	}
	e.add(code, document.PlaceOf(v, e.at), field, message, k.expected)
}

// password finds one in a URL.
var password = regexp.MustCompile(`://[^/]*@`)

func (e *explainer) add(code string, at document.Place, field, message, expected string) {
	e.findings = append(e.findings, at.Finding(code, e.object, field, message, expected))
}

// reported reports whether this field, or one inside or around it, has a finding.
func (e *explainer) reported(field string) bool {
	for _, f := range e.findings {
		if f.Field == field || strings.HasPrefix(f.Field, field+".") || strings.HasPrefix(field, f.Field+".") || field == "" {
			return true
		}
	}
	return false
}

// nearest is the place of the innermost struct that exists around a missing field.
func (e *explainer) nearest(path []string) document.Place {
	for n := len(path) - 1; n > 0; n-- {
		if v := e.value.LookupPath(pathOf(path[:n])); v.Exists() {
			return document.PlaceOf(v, e.at)
		}
	}
	return e.at
}

// fieldOf drops the definition's own name from the evaluator's path, and the
// quotes of names that are no identifiers.
func fieldOf(path []string) []string {
	if len(path) > 0 && strings.HasPrefix(path[0], "#") {
		path = path[1:]
	}
	field := make([]string, len(path))
	for i, p := range path {
		field[i] = p
		if plain, err := strconv.Unquote(p); err == nil {
			field[i] = plain
		}
	}
	return field
}

// pattern is the path among the known fields: a star for each place of a list.
func pattern(path []string) string {
	parts := slices.Clone(path)
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

func pathOf(path []string) cue.Path {
	var selectors []cue.Selector
	for _, p := range path {
		if i, err := strconv.Atoi(p); err == nil {
			selectors = append(selectors, cue.Index(i))
			continue
		}
		selectors = append(selectors, cue.Str(p))
	}
	return cue.MakePath(selectors...)
}

// Format formats the author's value, short and safe to print.
func Format(v cue.Value) string {
	switch v.IncompleteKind() {
	case cue.StringKind:
		s, err := v.String()
		if err != nil {
			return "text"
		}
		return document.ShownText(s)
	case cue.IntKind, cue.FloatKind, cue.NumberKind, cue.BoolKind:
		return fmt.Sprint(v)
	}
	if n, err := v.Len().Int64(); err == nil && n == 0 && v.IncompleteKind() == cue.ListKind {
		return "an empty list"
	}
	return KindName(v)
}

// KindName returns the type of a value, as findings name it.
func KindName(v cue.Value) string {
	switch v.IncompleteKind() {
	case cue.StructKind:
		return "an object"
	case cue.ListKind:
		return "a list"
	case cue.StringKind:
		return "text"
	case cue.NullKind:
		return "empty"
	case cue.BoolKind:
		return "true or false"
	}
	return "a " + v.IncompleteKind().String()
}

// KindNames returns the kinds that files may contain.
func KindNames() string {
	var names []string
	for _, k := range desired.Kinds() {
		if k != desired.KindAllocation {
			names = append(names, string(k))
		}
	}
	return definition.OneOf(names)
}

// EvaluationFindings returns the findings of CUE itself: a conflict, a name that is nowhere defined, a cycle.
func EvaluationFindings(code string, err error, at document.Place) []desired.Finding {
	var findings []desired.Finding
	for _, one := range errors.Errors(err) {
		where := at
		var also []string
		places := authored(one)
		if len(places) > 0 {
			where = places[0]
			for _, p := range places[1:] {
				also = append(also, fmt.Sprintf("%s:%d:%d", p.Path, p.Line, p.Column))
			}
		}
		format, args := one.Msg()
		message := document.Printable(fmt.Sprintf(format, args...))
		if len(also) > 0 {
			message += "; see also " + strings.Join(also, ", ")
		}
		f := where.Finding(code, "", strings.Join(one.Path(), "."), message, "")
		if !slices.Contains(findings, f) {
			findings = append(findings, f)
		}
	}
	return findings
}

// authored lists the places of an error in files that people wrote, in order
// and without repeats. The error's own position may be the schema's.
func authored(err errors.Error) []document.Place {
	var places []document.Place
	for _, p := range append([]token.Pos{err.Position()}, err.InputPositions()...) {
		at, ok := document.PlaceAt(p)
		if ok && !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	return places
}

// EachField iterates over the regular fields in the sequence of the files.
func EachField(v cue.Value) func(yield func(string, cue.Value) bool) {
	return func(yield func(string, cue.Value) bool) {
		it, err := v.Fields()
		if err != nil {
			return
		}
		for it.Next() {
			if !yield(it.Selector().Unquoted(), it.Value()) {
				return
			}
		}
	}
}
