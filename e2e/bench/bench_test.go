package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/desired/validate"
)

// The bench starts itself anew for parts of its work; under test that is this
// test binary.
func TestMain(m *testing.M) {
	validate.Child()
	if os.Getenv(childVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A bench that nobody runs stops working unseen. This runs all of it, as small as
// it gets; what it measures means nothing.
func TestEveryGoalIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers and builds the binary")
	}
	t.Parallel()
	out := filepath.Join(t.TempDir(), "bench.json")
	var table strings.Builder
	err := run(t.Context(), options{Out: out, Scale: 0.001, Idle: 2 * time.Second, Smoke: true, Table: &table, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
		if r.Skipped != "" && r.ID != "C2" { // its peer is built from modules that may not be here
			t.Errorf("%s was skipped: %s", r.ID, r.Skipped)
		}
	}
	want := []string{"A1", "A1-single", "A2", "A2-allocs", "A2-time", "A3", "A3-effects", "R1", "R2", "R2-cpu", "A4", "R5", "R5-p99", "F1", "F1-bare", "F2", "F2-resumed", "F3", "F3-rows", "F4", "F5", "L1", "L2", "L3", "L3-slope", "L4", "L4-hot", "L5", "L6", "C1", "C1-rss", "C2", "C3", "C3-cue", "C4", "C4-reads", "C5", "U1", "U2", "U3", "U3-rss"}
	if !slices.Equal(ids, want) {
		t.Errorf("measured %v, want %v", ids, want)
	}
	if lines := strings.Count(table.String(), "\n| "); lines != len(want)+1 {
		t.Errorf("the table has %d lines:\n%s", lines, &table)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   map[string]string
		only  []string
		scale float64
		fails bool
	}{
		"everything, at its real size": {scale: 1},
		"some of it":                   {env: map[string]string{"BENCH_ONLY": "A1, R2"}, only: []string{"A1", "R2"}, scale: 1},
		"smaller":                      {env: map[string]string{"BENCH_SCALE": "0.01"}, scale: 0.01},
		"no size":                      {env: map[string]string{"BENCH_SCALE": "0"}, fails: true},
		"no time":                      {env: map[string]string{"BENCH_IDLE": "long"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := optionsFrom(func(key string) string { return c.env[key] })
			if (err != nil) != c.fails {
				t.Fatalf("got %v", err)
			}
			if err == nil && (!slices.Equal(o.Only, c.only) || o.Scale != c.scale) {
				t.Errorf("got %v", o)
			}
		})
	}
}

// The log of a database is what the peer's script is made from.
func TestLastCreateOfALog(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		"~~gpuaas-api LOG:  execute stmtcache_1: begin", "\n~~gpuaas-api LOG:  statement: commit",
		"\n~~gpuaas-api LOG:  execute stmtcache_2: SELECT a\n\t\tFROM b WHERE c = $1\n~~gpuaas-api DETAIL:  parameters: $1 = 'it''s: 1', $2 = NULL",
		"\n~~gpuaas-api LOG:  execute stmtcache_3: SELECT revision FROM policy_revision", "\n~~other LOG:  statement: SELECT 2",
		"\n~~gpuaas-api LOG:  statement: commit\n",
	}, "")
	got := lastCreate(entries(log))
	if len(got) != 2 || got[0].sql != "SELECT a\n\tFROM b WHERE c = $1" || got[1].sql != "commit" {
		t.Fatalf("got %q", got)
	}
	if want := []string{"'it''s: 1'", "NULL"}; !slices.Equal(got[0].params, want) {
		t.Errorf("got %q, want %q", got[0].params, want)
	}
	v := vary{fresh: map[string]string{}}
	for logged, want := range map[string]string{
		"'it''s: 1'":                             `(E'it''s\x3A 1')::text`,
		"NULL":                                   `NULL::text`,
		"'" + tenantPrefix + "100000000003'":     `(E'` + tenantPrefix + `' || :t || E'')::text`,
		"'captured-3'":                           `(E'captured-' || :n || E'')::text`,
		"'GPU-" + slotPrefix + "100000000009'":   `(E'GPU-` + slotPrefix + `' || :s || E'')::text`,
		"'0199a000-0000-7000-8000-1234567890ab'": `(E'99990000-0000-7000-8000-' || :n || E'')::text`,
	} {
		if got := v.expression(logged, "text"); got != want {
			t.Errorf("%s became %s, want %s", logged, got, want)
		}
	}
}

func TestQuantileWasMeasured(t *testing.T) {
	t.Parallel()
	list := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(list, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}
