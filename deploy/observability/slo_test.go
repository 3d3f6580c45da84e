package observability_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/deploy/observability"
)

// TestImpossibleObjectivesAreRejected changes one line of slo.yaml in each case. An alert that cannot fire is worse than
// none.
func TestImpossibleObjectivesAreRejected(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("slo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, changed, why string }{
		"an unknown field":                  {"period: 30d", "period: 30d\nperiods: 30d", "periods"},
		"a second document":                 {"period: 30d", "period: 30d\n---\nperiod: 30d", "more than one document"},
		"a period without a unit":           {"period: 30d", "period: '30'", "not a window"},
		"a short window that is longer":     {"short: 5m", "short: 2h", "not shorter"},
		"a window longer than the period":   {"long: 3d", "long: 31d", "longer than the period"},
		"a budget that ends before":         {"rate: 14.4, long: 1h", "rate: 14.4, long: 3d", "used up before"},
		"a rate that saves":                 {"rate: 1,", "rate: 0.5,", "at least 1"},
		"a rate above all requests":         {"goal: 99.9\n    ratio", "goal: 90\n    ratio", "cannot fire"},
		"a goal of everything":              {"goal: 99.9\n    ratio", "goal: 100\n    ratio", "not between"},
		"no goal":                           {"goal: 99.9\n    ratio", "ratio", "not between"},
		"an objective that is there twice":  {"name: api-latency", "name: api-availability", "twice"},
		"a name that is no label":           {"name: api-latency", "name: API latency", "kebab"},
		"two measures":                      {"    ratio:", "    state: {expr: up, above: 1}\n    ratio:", "exactly one"},
		"no measure":                        {"    state: {expr: max(gpuaas_accrual_lag_seconds), above: 900}\n", "", "exactly one"},
		"a latency without a bound":         {", seconds: 60}", "}", "seconds above 0"},
		"a severity without a route":        {"severity: warning", "severity: page", "severity"},
		"an alert whose name breaks a rule": {"alert: ErrorBudgetSlowBurn", "alert: \"x'\"", "CamelCase"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(string(text), c.old, c.changed, 1)
			if changed == string(text) {
				t.Fatalf("slo.yaml has no %q", c.old)
			}
			if _, err := observability.Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want an error with %q", err, c.why)
			}
		})
	}
}
