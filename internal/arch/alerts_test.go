package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gopkg.in/yaml.v3"
)

// The forms of a metric that Prometheus adds to its name.
var metricForm = regexp.MustCompile(`_(bucket|sum|count)$`)

var (
	metricName   = regexp.MustCompile(`\bgpuaas_[a-z_]+`)
	recordedName = regexp.MustCompile(`\bgpuaas:[a-z0-9_:]+`)
	metricGiven  = regexp.MustCompile(`"(gpuaas_[a-z_]+)"`)
)

type alertRule struct {
	Alert, Record, Expr string
	For                 string
	Labels, Annotations map[string]string
}

// ofPrometheus are alerts about the monitoring itself. They read no metric of the product.
var ofPrometheus = []string{"GPUaaSTargetMissing", "GPUaaSWatchdog"}

// TestEveryAlertCanFireAndIsExplained compares the Prometheus rules with the exported metrics,
// the runbooks and the dashboards. An alert on a metric that does not exist never fires, and one
// without a runbook gives the operator on call no instruction.
func TestEveryAlertCanFireAndIsExplained(t *testing.T) {
	t.Parallel()
	exported, recorded := exportedMetrics(t), map[string]bool{}
	var alerts []alertRule
	for _, path := range []string{"../../deploy/alerts/gpuaas.rules.yaml", "../../deploy/alerts/gpuaas.slo.rules.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Groups []struct{ Rules []alertRule } }
		if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) == 0 {
			t.Fatalf("%s: %d groups: %v", path, len(file.Groups), err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				if recorded[r.Record] = true; r.Alert != "" {
					alerts = append(alerts, r)
				}
			}
		}
	}
	for _, r := range alerts {
		checkAlert(t, r, exported, recorded)
	}
}

func checkAlert(t *testing.T, r alertRule, exported, recorded map[string]bool) {
	t.Helper()
	name, ours := strings.CutPrefix(r.Alert, "GPUaaS")
	if !ours || name == "" {
		t.Errorf("%q does not begin with GPUaaS", r.Alert)
	}
	if !slices.Contains([]string{"warning", "critical", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
		t.Errorf("%s lacks severity, summary or description", r.Alert)
	}
	used := metricName.FindAllString(r.Expr, -1)
	for _, m := range used {
		if !exported[m] && !exported[metricForm.ReplaceAllString(m, "")] {
			t.Errorf("%s uses %s, which the server does not export", r.Alert, m)
		}
	}
	for _, m := range recordedName.FindAllString(r.Expr, -1) {
		if used = append(used, m); !recorded[m] {
			t.Errorf("%s uses %s, which no rule records", r.Alert, m)
		}
	}
	if len(used) == 0 && !slices.Contains(ofPrometheus, r.Alert) {
		t.Errorf("%s uses no metric", r.Alert)
	}
	page := "docs/runbooks/" + kebab(name) + ".md"
	if !strings.HasSuffix(r.Annotations["runbook_url"], "/"+page) {
		t.Errorf("%s: its runbook should be %s", r.Alert, page)
	}
	if r.Annotations["portal_url"] != "{{ $externalLabels.gpuaas_url }}/portal/runbooks/"+kebab(name) {
		t.Errorf("%s: its page in the portal should be that of %s", r.Alert, page)
	}
	dashboard, linked := strings.CutPrefix(r.Annotations["dashboard_url"], "{{ $externalLabels.grafana_url }}/d/gpuaas-")
	if _, err := os.Stat("../../deploy/observability/grafana/" + dashboard + ".json"); err != nil || !linked {
		t.Errorf("%s: its dashboard does not exist: %s", r.Alert, r.Annotations["dashboard_url"])
	}
	words, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Errorf("%s: %v", r.Alert, err)
		return
	}
	for _, section := range []string{"Meaning", "Impact", "Diagnosis", "Mitigation", "Escalation"} {
		if !strings.Contains(string(words), "\n**"+section+".**") {
			t.Errorf("%s lacks the section %s", page, section)
		}
	}
}

func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// exportedMetrics returns the names of the metrics in the product code.
func exportedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range metricGiven.FindAllStringSubmatch(string(text), -1) {
			all[found[1]] = true
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d metrics: %v", len(all), err)
	}
	return all
}
