package support

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Names of the sections that Explain reads.
const (
	OverviewFile = "overview.json"
	HealthFile   = "health.json"
	MetricsFile  = "metrics.txt"
)

// Rule is an alert.
type Rule struct{ Alert, Expr, Summary, Runbook string }

// Hint is a runbook that a bundle suggests.
type Hint struct {
	Runbook string `json:"runbook"`
	Reason  string `json:"reason"`
}

// Explain names the runbooks of what the bundle shows: panels of the overview that are not ok, dependencies that are not
// ok, and alerts that compare a present value. It cannot evaluate an alert on a rate, because a bundle has one sample.
func Explain(b Bundle, rules []Rule) (hints []Hint) {
	var overview struct {
		Panels []struct {
			Name, Status, Message string
			Runbook               string `json:"runbook_id"`
		}
	}
	if json.Unmarshal(b.Content[OverviewFile], &overview) == nil {
		for _, p := range overview.Panels {
			if p.Status != "ok" {
				hints = append(hints, Hint{p.Runbook, fmt.Sprintf("the panel %s is %s: %s", p.Name, p.Status, p.Message)})
			}
		}
	}
	var health struct {
		Checks []struct{ Name, Status, Message string }
	}
	if json.Unmarshal(b.Content[HealthFile], &health) == nil {
		for _, c := range health.Checks {
			if c.Status != "ok" {
				hints = append(hints, Hint{"section-degraded", fmt.Sprintf("the check %s is %s: %s", c.Name, c.Status, c.Message)})
			}
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(b.Content[MetricsFile]))
	if err != nil {
		return hints
	}
	for _, r := range rules {
		if value, fires := fires(r.Expr, families); fires {
			hints = append(hints, Hint{r.Runbook, fmt.Sprintf("%s: %s (%g)", r.Alert, r.Summary, value)})
		}
	}
	return hints
}

var (
	comparison = regexp.MustCompile(`^(?:sum(?: by \([^)]*\))? \()?(\w+)(?:\{([^}]*)\})?\)? (>|<) ([\d.]+)$`)
	matcher    = regexp.MustCompile(`^\s*(\w+)(=|!=|=~)"([^"]*)"\s*$`)
)

// fires compares the metric of an expression with its limit. It returns the first value beyond it.
func fires(expr string, families map[string]*dto.MetricFamily) (float64, bool) {
	e := comparison.FindStringSubmatch(expr)
	if e == nil || families[e[1]] == nil {
		return 0, false
	}
	limit, err := strconv.ParseFloat(e[4], 64)
	if err != nil {
		return 0, false
	}
	for _, m := range families[e[1]].GetMetric() {
		value := m.GetGauge().GetValue()
		if m.GetGauge() == nil || !selected(m, e[2]) {
			continue
		}
		if e[3] == ">" && value > limit || e[3] == "<" && value < limit {
			return value, true
		}
	}
	return 0, false
}

func selected(m *dto.Metric, matchers string) bool {
	if matchers == "" {
		return true
	}
	for one := range strings.SplitSeq(matchers, ",") {
		want := matcher.FindStringSubmatch(one)
		if want == nil {
			return false
		}
		value := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == want[1] {
				value = l.GetValue()
			}
		}
		is, err := regexp.MatchString("^(?:"+want[3]+")$", value)
		switch {
		case err != nil, want[2] == "=" && value != want[3], want[2] == "!=" && value == want[3], want[2] == "=~" && !is:
			return false
		}
	}
	return true
}
