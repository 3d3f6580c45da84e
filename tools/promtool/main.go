// Command promtool prints what PromQL expressions read: their metrics, labels and label values. It is a module of its own,
// so that the parser of PromQL is not linked into the product.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// matcher is a condition on a label.
type matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"`
	Value string `json:"value"`
}

// selector reads one metric. Labels are those by which aggregations around it group, or which operators match.
type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
	Labels   []string  `json:"labels"`
}

// A result has what one expression reads, or the reason why it cannot be parsed.
type result struct {
	Error     string     `json:"error,omitempty"`
	Selectors []selector `json:"selectors"`
}

func main() {
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		fmt.Fprintln(os.Stderr, "standard input is not a JSON list of expressions:", err)
		os.Exit(1)
	}
	all := make([]result, 0, len(expressions))
	for _, text := range expressions {
		all = append(all, read(text))
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(text string) result {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return result{Error: err.Error()}
	}
	r := result{Selectors: []selector{}}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			r.Selectors = append(r.Selectors, selectorOf(v, path))
		}
		return nil
	})
	return r
}

func selectorOf(v *parser.VectorSelector, path []parser.Node) selector {
	s := selector{Metric: v.Name, Matchers: []matcher{}, Labels: []string{}}
	for _, m := range v.LabelMatchers {
		if m.Name != labels.MetricName {
			s.Matchers = append(s.Matchers, matcher{m.Name, m.Type.String(), m.Value})
		} else if s.Metric == "" {
			s.Metric = m.Value
		}
	}
	for _, p := range path {
		switch node := p.(type) {
		case *parser.AggregateExpr:
			s.Labels = append(s.Labels, node.Grouping...)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				s.Labels = append(s.Labels, node.VectorMatching.MatchingLabels...)
			}
		}
	}
	return s
}
