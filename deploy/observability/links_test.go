package observability_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/deploy/observability"
)

// TestLinksOfDashboardsLeadSomewhere: each panel leads to a runbook, and each dashboard to a screen of the portal. Titles
// are unique, because alerts and readers name panels by them.
func TestLinksOfDashboardsLeadSomewhere(t *testing.T) {
	t.Parallel()
	screens, err := os.ReadFile("../../web/screens.yaml")
	if err != nil {
		t.Fatal(err)
	}
	panels := 0
	for _, d := range observability.Dashboards(objectives(t)) {
		if !strings.Contains(string(screens), "\n  - route: "+d.Portal+"\n") {
			t.Errorf("%s: the portal has no screen %s", d.Name, d.Portal)
		}
		titles := map[string]bool{}
		for _, p := range d.Panels {
			panels++
			if _, err := os.Stat("../../docs/runbooks/" + p.Runbook + ".md"); err != nil {
				t.Errorf("%s, %s: %v", d.Name, p.Title, err)
			}
			if titles[p.Title] || p.Title == "" || p.Unit == "" || len(p.Queries) == 0 {
				t.Errorf("%s has two panels %q, or one without a title, a unit or a query", d.Name, p.Title)
			}
			titles[p.Title] = true
		}
	}
	if panels < 80 {
		t.Errorf("only %d panels", panels)
	}
}
