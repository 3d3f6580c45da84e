package validate

import (
	"bytes"
	stdjson "encoding/json"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/encoding/json"

	"github.com/gpuaas/gpuaas/desired"
)

// jsonFile reads one document, or a list of them.
func jsonFile(c *Checker, name string, src []byte) part {
	p := part{}
	at := place{name, 1, 1}
	if err := stdjson.Unmarshal(src, new(any)); err != nil {
		return p.failAt(desired.CodeJSONSyntax, offsetPlace(name, src, err), "", err.Error(), "JSON")
	}
	expr, err := json.Extract(name, src)
	if err != nil {
		return p.fail(evaluationFindings(desired.CodeJSONSyntax, errors.Promote(err, "syntax"), at))
	}
	if findings := repeatedKeys(expr); len(findings) > 0 {
		return p.fail(findings)
	}
	documents := []ast.Expr{expr}
	if list, ok := expr.(*ast.ListLit); ok {
		documents = list.Elts
	}
	for _, d := range documents {
		where := at
		if begin, ok := placeAt(d.Pos()); ok {
			where = begin
		}
		p.keep(c.data(d, where))
	}
	return p
}

// offsetPlace is where the standard decoder stopped. It names the offset behind
// the character it did not expect.
func offsetPlace(name string, src []byte, err error) place {
	at := place{name, 1, 1}
	var syntax *stdjson.SyntaxError
	if !errors.As(err, &syntax) {
		return at
	}
	before := src[:max(0, min(int(syntax.Offset)-1, len(src)))]
	at.line += bytes.Count(before, []byte("\n"))
	at.column = len(before) - bytes.LastIndexByte(before, '\n')
	return at
}

// repeatedKeys finds keys that stand twice in one object. Readers of JSON
// disagree about which one counts, and CUE would unify them.
func repeatedKeys(expr ast.Expr) []desired.Finding {
	var findings []desired.Finding
	ast.Walk(expr, func(n ast.Node) bool {
		s, ok := n.(*ast.StructLit)
		if !ok {
			return true
		}
		seen := map[string]bool{}
		for _, d := range s.Elts {
			f, ok := d.(*ast.Field)
			if !ok {
				continue
			}
			name, _, err := ast.LabelName(f.Label)
			if err != nil {
				continue
			}
			if seen[name] {
				at, _ := placeAt(f.Label.Pos())
				findings = append(findings, at.finding(desired.CodeDuplicateKey, "", name, "the key stands twice in one object", "each key once"))
			}
			seen[name] = true
		}
		return true
	}, nil)
	return findings
}
