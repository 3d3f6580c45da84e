package validate

import (
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Object validates one object that was written through the API and returns it with a normalised
// spec. It runs in this process: the input is JSON, which is data, and never CUE. References to
// other objects are checked by the store.
//
// The error has the code spec_invalid, the field of the first finding, and all findings in its
// details.
func (c *Checker) Object(o desired.Object) (desired.Object, error) {
	written, err := json.Marshal(map[string]any{
		"apiVersion": "gpuaas/v1alpha1",
		"kind":       o.Kind,
		"metadata":   metadata(o),
		"spec":       o.Spec,
	})
	if err != nil {
		return o, errs.New(errs.SpecInvalid, "the spec is no JSON").At("spec").Because(err)
	}
	const name = "spec.json"
	text := document.LinesOf(name, written)
	if at := document.FirstInvalid(written); at >= 0 {
		return o, invalidSpec([]desired.Finding{text.Place(at).Finding(desired.CodeNotUTF8, "", "spec", "is not UTF-8", "UTF-8 text")})
	}
	root, findings := document.ReadJSON(text, written)
	if len(findings) > 0 {
		return o, invalidSpec(findings)
	}
	checked, ok := c.accepted(&root, document.Place{Path: name, Line: 1, Column: 1})
	if !ok {
		c.mu.Lock()
		checked = c.data(text.Expr(&root), document.Place{Path: name, Line: 1, Column: 1})
		c.mu.Unlock()
	}
	if len(checked.findings) > 0 {
		return o, invalidSpec(checked.findings)
	}
	o.Spec, o.SpecHash = checked.object.Spec, checked.object.SpecHash
	return o, nil
}

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

func invalidSpec(findings []desired.Finding) error {
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
