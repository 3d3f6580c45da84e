package observability_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/deploy/observability"
)

//go:generate go test -run TestGenerated . -update

var update = flag.Bool("update", false, "write the generated files")

func objectives(t *testing.T) observability.Objectives {
	t.Helper()
	text, err := os.ReadFile("slo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o, err := observability.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGenerated compares the rules, the dashboards and the page with their sources. Files of dashboards that are gone are
// not left behind.
func TestGenerated(t *testing.T) {
	t.Parallel()
	o := objectives(t)
	files := map[string]string{
		"../alerts/gpuaas.slo.rules.yaml": o.Rules(),
		"../../docs/slo.md":               o.Page(),
		"../alerts/gpuaas_test.yaml":      ruleTests(t, o.Rules(), time.Minute),
		"../alerts/gpuaas_long_test.yaml": ruleTests(t, o.Rules(), coarse),
	}
	for _, d := range observability.Dashboards(o) {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		files["grafana/"+d.Name+".json"] = text
	}
	committed, err := filepath.Glob("grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range committed {
		if _, ours := files[path]; !ours && *update {
			_ = os.Remove(path)
		} else if !ours {
			t.Errorf("%s belongs to no dashboard: run make gen", path)
		}
	}
	for path, want := range files {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if diff := cmp.Diff(string(have), want); err != nil || diff != "" {
			t.Errorf("%s is out of date: run make gen (%v)\n%s", path, err, diff)
		}
	}
}
