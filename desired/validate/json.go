package validate

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/encoding/json"

	"github.com/gpuaas/gpuaas/desired"
)

// jsonFile reads one document, or a list of them.
func jsonFile(c *Checker, name string, src []byte) part {
	p := part{}
	at := place{name, 1, 1}
	expr, err := json.Extract(name, src)
	if err != nil {
		return p.fail(syntaxFindings(err, at))
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

// syntaxFindings keeps the first error: what follows a syntax error is noise.
func syntaxFindings(err error, at place) []desired.Finding {
	findings := evaluationFindings(errors.Promote(err, "syntax"), at)
	return findings[:min(1, len(findings))]
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
				findings = append(findings, at.finding("", name, "the key stands twice in one object", "each key once"))
			}
			seen[name] = true
		}
		return true
	}, nil)
	return findings
}
