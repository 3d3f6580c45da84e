package validate

import (
	"fmt"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// yamlFile reads the documents of a stream.
func yamlFile(c *Checker, name string, src []byte) part {
	p := part{}
	text := document.LinesOf(name, src)
	for n, findings := range document.ReadYAML(text, src) {
		if len(findings) > 0 {
			p.fail(findings)
		} else {
			c.document(&p, n, text)
		}
		if len(p.findings) >= mostFindings {
			break
		}
	}
	return p
}

// jsonFile reads one document, or a list of them.
func jsonFile(c *Checker, name string, src []byte) part {
	p := part{}
	text := document.LinesOf(name, src)
	root, findings := document.ReadJSON(text, src)
	if len(findings) > 0 {
		return p.fail(findings)
	}
	documents := []document.Node{root}
	if list, ok := root.Value.([]document.Node); ok {
		documents = list
	}
	for i := range documents {
		if len(p.findings) >= mostFindings {
			break
		}
		c.document(&p, &documents[i], text)
	}
	return p
}

// document validates one document. The JSON Schema accepts it, or CUE finds out what is wrong with it.
func (c *Checker) document(p *part, n *document.Node, text document.Lines) {
	at := n.At.In(text.Path)
	if o, ok := c.accepted(n, at); ok {
		p.add(o)
	} else if f := unfit(n, at); f != nil {
		p.fail([]desired.Finding{*f})
	} else {
		p.add(c.data(text.Expr(n), at))
	}
}

// mostValues exceeds every kind's number of values by far. CUE needs quadratic time to explain a
// finding.
const mostValues = 5000

// unfit returns the finding of a document that CUE need not evaluate: it is no object, or has too many values.
func unfit(n *document.Node, at document.Place) *desired.Finding {
	var f desired.Finding
	switch _, ok := n.Value.([]document.Member); {
	case !ok:
		f = at.Finding(desired.CodeNotAnObject, "", "", "is "+n.Format()+", not an object", "a document with apiVersion, kind, metadata and spec")
	case n.Count(mostValues) > mostValues:
		f = at.Finding(desired.CodeEvaluationLimit, "", "", fmt.Sprintf("has more than %d values", mostValues), "objects as the kinds describe them")
	default:
		return nil
	}
	return &f
}
