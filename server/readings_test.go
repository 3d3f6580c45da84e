package server

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// A reading is the part of an expression that reads one metric. Labels are those of aggregations and matchings around it.
type reading struct {
	Metric   string
	Matchers []struct{ Label, Op, Value string }
	Labels   []string
}

// exported has the labels of a metric with their values. No values: any.
type exported map[string]map[string]bool

// compareReadings fails unless each metric, label and value that the rules and dashboards read is exported.
func compareReadings(t *testing.T, families []*dto.MetricFamily, descriptions ...[]metric) {
	t.Helper()
	known := prometheusOwn()
	for _, m := range slices.Concat(descriptions...) {
		known[m.name] = exported{}
		for _, label := range strings.FieldsFunc(m.labels, func(r rune) bool { return r == ',' || r == ' ' }) {
			known[m.name][label] = nil
		}
	}
	addFamilies(known, families)
	all := expressions(t, known)
	read := parsed(t, slices.Sorted(maps.Keys(all)))
	if len(read) < 100 {
		t.Errorf("only %d readings were found", len(read))
	}
	for expr, readings := range read {
		for _, r := range readings {
			if why := r.missing(known); why != "" {
				t.Errorf("%s: %s in %s", all[expr], why, expr)
			}
		}
	}
}

// prometheusOwn are the series that Prometheus writes by itself.
func prometheusOwn() map[string]exported {
	return map[string]exported{
		"up":     {},
		"ALERTS": {"alertname": nil, "severity": nil, "alertstate": {"firing": true, "pending": true}},
	}
}

func addFamilies(known map[string]exported, families []*dto.MetricFamily) {
	for _, f := range families {
		labels := known[f.GetName()]
		if labels == nil {
			labels = exported{}
			known[f.GetName()] = labels
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels.add(l.GetName(), l.GetValue())
			}
			for _, b := range m.GetHistogram().GetBucket() {
				labels.add("le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
			}
		}
	}
}

func (e exported) add(label, value string) {
	if e[label] == nil {
		e[label] = map[string]bool{}
	}
	e[label][value] = true
}

var (
	variable   = regexp.MustCompile(`\$\{?\w+\}?`)
	valuesOf   = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)
	metricForm = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// expressions returns each expression of the rules and dashboards with its place, and adds the recorded series to known.
func expressions(t *testing.T, known map[string]exported) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{"../deploy/alerts/gpuaas.rules.yaml", "../deploy/alerts/gpuaas.slo.rules.yaml"} {
		for _, r := range readRules(t, path) {
			all[r.Expr] = path
			if r.Record != "" && known[r.Record] == nil {
				known[r.Record] = exported{}
			}
			for label, value := range r.Labels {
				if r.Record != "" {
					known[r.Record].add(label, value)
				}
			}
		}
	}
	pages, err := filepath.Glob("../deploy/observability/grafana/*.json")
	if err != nil || len(pages) < 11 {
		t.Fatalf("%d dashboards: %v", len(pages), err)
	}
	for _, path := range pages {
		var page struct {
			Panels     []struct{ Targets []struct{ Expr string } }
			Templating struct {
				List []struct{ Type, Query string }
			}
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &page)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range page.Panels {
			for _, query := range p.Targets {
				all[filled(query.Expr)] = path
			}
		}
		for _, v := range page.Templating.List {
			if v.Type == "query" {
				all[valuesOf.ReplaceAllString(filled(v.Query), "count by ($2) ($1)")] = path
			}
		}
	}
	return all
}

// filled replaces the variables of Grafana as it would.
func filled(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
	return variable.ReplaceAllString(expr, ".*")
}

// parsed reads expressions with the parser of Prometheus if GPUAAS_TEST_PROMQL names the program of tools/promtool.
// Otherwise it finds names before braces and labels in braces, which finds no syntax error.
func parsed(t *testing.T, all []string) map[string][]reading {
	t.Helper()
	program := os.Getenv("GPUAAS_TEST_PROMQL")
	found := map[string][]reading{}
	if program == "" {
		for _, expr := range all {
			found[expr] = tokens(expr)
		}
		return found
	}
	input, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Stdin = strings.NewReader(string(input))
	out, err := command.Output()
	var results []struct {
		Error     string
		Selectors []reading
	}
	if err == nil {
		err = json.Unmarshal(out, &results)
	}
	if err != nil || len(results) != len(all) {
		t.Fatalf("%s: %d results: %v", program, len(results), err)
	}
	for i, r := range results {
		if found[all[i]] = r.Selectors; r.Error != "" {
			t.Errorf("%s: %s", all[i], r.Error)
		}
	}
	return found
}

var (
	selector = regexp.MustCompile(`\b((?:gpuaas|process|go)[_:][\w:]*|up|ALERTS)\b(?:\{([^}]*)\})?`)
	matches  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
)

func tokens(expr string) (all []reading) {
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		r := reading{Metric: m[1]}
		for _, c := range matches.FindAllStringSubmatch(m[2], -1) {
			r.Matchers = append(r.Matchers, struct{ Label, Op, Value string }{c[1], c[2], c[3]})
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			r.Labels = append(r.Labels, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
		}
		all = append(all, r)
	}
	return all
}

// missing returns what no server exports, or nothing.
func (r reading) missing(known map[string]exported) string {
	labels := known[r.Metric]
	form := metricForm.FindString(r.Metric)
	if labels == nil && form != "" {
		labels = known[strings.TrimSuffix(r.Metric, form)]
	}
	if labels == nil {
		return "no metric " + r.Metric
	}
	for _, l := range r.Labels {
		if _, has := labels[l]; !has && l != "le" && !ofTarget(l) {
			return "no label " + l + " of " + r.Metric
		}
	}
	for _, m := range r.Matchers {
		values, has := labels[m.Label]
		switch {
		case ofTarget(m.Label):
		case !has:
			return "no label " + m.Label + " of " + r.Metric
		case len(values) > 0 && m.Value != ".*" && !matched(m.Op, m.Value, values):
			return "no value " + m.Value + " of " + r.Metric + "{" + m.Label + "}"
		}
	}
	return ""
}

// ofTarget reports whether Prometheus adds a label to each series of a target.
func ofTarget(label string) bool { return label == "job" || label == "instance" }

func matched(op, value string, values map[string]bool) bool {
	if op == "=" || op == "!=" {
		return values[value]
	}
	pattern, err := regexp.Compile(`^(?:` + value + `)$`)
	return err == nil && slices.ContainsFunc(slices.Collect(maps.Keys(values)), pattern.MatchString)
}

// TestWrongReadingsAreFound: a check that finds everything proves nothing.
func TestWrongReadingsAreFound(t *testing.T) {
	t.Parallel()
	known := map[string]exported{"gpuaas_x_seconds": {"kind": {"a": true, "b": true}, "le": {"0.5": true}}, "up": {}}
	for expr, want := range map[string]string{
		`sum by (kind) (rate(gpuaas_x_seconds_count{kind="a"}[5m]))`:            "",
		`sum by (le) (rate(gpuaas_x_seconds_bucket{kind=~"a|c",le="0.5"}[5m]))`: "",
		`gpuaas_x_seconds{kind=~".*",instance="i"}`:                             "",
		`up == 0`:                                   "",
		`gpuaas_y_seconds`:                          "no metric gpuaas_y_seconds",
		`sum by (kin) (gpuaas_x_seconds)`:           "no label kin",
		`gpuaas_x_seconds{kin="a"}`:                 "no label kin",
		`gpuaas_x_seconds{kind="c"}`:                "no value c",
		`gpuaas_x_seconds{kind!="c"}`:               "no value c",
		`gpuaas_x_seconds{kind=~"c.*"}`:             "no value c.*",
		`rate(gpuaas_x_seconds_bucket{le="1"}[5m])`: "no value 1",
	} {
		for _, r := range tokens(expr) {
			if why := r.missing(known); (want == "") != (why == "") || !strings.HasPrefix(why, want) {
				t.Errorf("%s: %q, want %q", expr, why, want)
			}
		}
	}
}
