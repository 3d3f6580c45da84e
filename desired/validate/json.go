package validate

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/encoding/json"

	"github.com/gpuaas/gpuaas/desired"
)

// jsonFile reads one document, or a list of them.
func jsonFile(c *Checker, name string, src []byte) part {
	p := part{}
	at := place{name, 1, 1}
	text := linesOf(name, src)
	root, stopped, unread := scan(string(src))
	switch {
	case errors.Is(unread, errDeep):
		return p.failAt(desired.CodeTooDeep, text.place(stopped), "", fmt.Sprintf("is nested more than %d deep", deepest), "less nesting")
	case errors.Is(unread, errHalf):
		return p.failAt(desired.CodeNotUTF8, text.place(stopped), "", "has half of a pair of surrogates", "whole characters")
	case errors.Is(unread, errLong):
		return p.failAt(desired.CodeAmbiguousValue, text.place(stopped), "", fmt.Sprintf("is a number of more than %d digits", mostDigits), "a number that readers can hold")
	case unread == nil && c.quickJSON(&p, &root, text):
		return p
	}
	if err := stdjson.Unmarshal(src, new(stdjson.RawMessage)); err != nil {
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
	for i, d := range documents {
		if len(p.findings) >= mostFindings {
			break
		}
		if unread == nil {
			read := &root.documents()[i]
			if f := read.unfit(text.place(int(read.at.a))); f != nil {
				p.fail([]desired.Finding{*f})
				continue
			}
		}
		where := at
		if begin, ok := placeAt(d.Pos()); ok {
			where = begin
		}
		p.keep(c.data(d, where))
	}
	return p
}

// quickJSON keeps all documents of a file, or none: a refused one takes the whole
// file to CUE, which has the words.
func (c *Checker) quickJSON(p *part, root *node, at lines) bool {
	documents := root.documents()
	var kept []checked
	for i := range documents {
		// CUE places a name behind its quote.
		o, ok := c.quickly(&documents[i], at.place(int(documents[i].at.a)), func(s spot) place { return at.place(int(s.a) + 1) })
		if !ok {
			return false
		}
		kept = append(kept, o)
	}
	for _, o := range kept {
		p.keep(o)
	}
	return true
}

// documents of a file: itself, or the elements of a list.
func (n *node) documents() []node {
	if n.kind == kindList {
		return n.items
	}
	return []node{*n}
}

// lines turns offsets into places.
type lines struct {
	path   string
	starts []int
}

func linesOf(path string, src []byte) lines {
	l := lines{path, []int{0}}
	for i, c := range src {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

func (l lines) place(offset int) place {
	line, found := slices.BinarySearch(l.starts, offset)
	if !found {
		line--
	}
	return place{l.path, line + 1, offset - l.starts[line] + 1}
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
