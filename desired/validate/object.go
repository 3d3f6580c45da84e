package validate

import (
	stdjson "encoding/json"
	"fmt"
	"unicode/utf8"

	"cuelang.org/go/encoding/json"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Object checks one object that was written through the API and returns it with
// its spec normalised. It runs in this process: the input is JSON, which is
// data, and never CUE. References to other objects are the store's to check.
//
// A refusal is spec_invalid with the first finding's field and all findings
// among its details.
func (c *Checker) Object(o desired.Object) (desired.Object, error) {
	if spec, ok := c.accepts(o); ok {
		o.Spec, o.SpecHash = spec, desired.Hash(spec)
		return o, nil
	}
	document, err := stdjson.Marshal(map[string]any{
		"apiVersion": "gpuaas/v1alpha1",
		"kind":       o.Kind,
		"metadata":   metadata(o),
		"spec":       o.Spec,
	})
	if err != nil {
		return o, errs.New(errs.SpecInvalid, "the spec is no JSON").At("spec").Because(err)
	}
	const name = "spec.json"
	expr, err := json.Extract(name, document)
	if err != nil {
		return o, errs.New(errs.SpecInvalid, "the spec cannot be read").At("spec").Because(err)
	}
	findings := repeatedKeys(expr)
	if len(findings) == 0 {
		c.mu.Lock()
		checked := c.data(expr, place{name, 1, 1})
		c.mu.Unlock()
		if findings = checked.findings; len(findings) == 0 {
			o.Spec, o.SpecHash = checked.object.Spec, checked.object.SpecHash
			return o, nil
		}
	}
	return o, refusal(findings)
}

// accepts asks the generated validators, which most objects pass.
func (c *Checker) accepts(o desired.Object) (spec []byte, ok bool) {
	if c.slow || !utf8.ValidString(o.Name) {
		return nil, false
	}
	body, _, err := scan(string(o.Spec))
	if err != nil {
		return nil, false
	}
	about := []member{{name: "name", value: text(o.Name)}}
	for _, more := range []struct {
		name  string
		texts map[string]string
	}{{"labels", o.Labels}, {"annotations", o.Annotations}} {
		if len(more.texts) == 0 {
			continue
		}
		inner := node{kind: kindObject}
		for name, value := range more.texts {
			if !utf8.ValidString(name) || !utf8.ValidString(value) {
				return nil, false
			}
			inner.members = append(inner.members, member{name: name, value: text(value)})
		}
		about = append(about, member{name: more.name, value: inner})
	}
	root := node{kind: kindObject, members: []member{
		{name: "apiVersion", value: text("gpuaas/v1alpha1")},
		{name: "kind", value: text(string(o.Kind))},
		{name: "metadata", value: node{kind: kindObject, members: about}},
		{name: "spec", value: body},
	}}
	found, ok := quick(&root, nil)
	return found.spec, ok
}

func text(s string) node { return node{kind: kindText, text: s} }

func metadata(o desired.Object) map[string]any {
	m := map[string]any{"name": o.Name}
	if len(o.Labels) > 0 {
		m["labels"] = o.Labels
	}
	if len(o.Annotations) > 0 {
		m["annotations"] = o.Annotations
	}
	return m
}

func refusal(findings []desired.Finding) error {
	lines := make([]map[string]string, len(findings))
	for i, f := range findings {
		lines[i] = map[string]string{"code": f.Code, "field": f.Field, "message": f.Message, "expected": f.Expected}
	}
	first := findings[0]
	e := errs.New(errs.SpecInvalid, "%s", first.Message).At(first.Field).With("findings", lines)
	if first.Expected != "" {
		e = e.Try("expected %s", first.Expected)
	}
	if len(findings) > 1 {
		e.Message = fmt.Sprintf("%s, and %d more", first.Message, len(findings)-1)
	}
	return e
}

// Check is Object for callers that only want to know.
func (c *Checker) Check(o desired.Object) error {
	_, err := c.Object(o)
	return err
}
