package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// TestMain also runs the parts of the bench. The bench starts its own executable for them, and in a
// test that executable is the test binary.
func TestMain(m *testing.M) {
	validate.Child()
	if os.Getenv(lab.ChildVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
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
			o, err := lab.OptionsFrom(func(key string) string { return c.env[key] })
			if (err != nil) != c.fails {
				t.Fatalf("got %v", err)
			}
			if err == nil && (!slices.Equal(o.Only, c.only) || o.Scale != c.scale) {
				t.Errorf("got %v", o)
			}
		})
	}
}

// TestLastCreateOfALog checks the parser of the database's log, because the script of the peer is
// generated from that log.
func TestLastCreateOfALog(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		"~~gpuaas-api LOG:  execute stmtcache_1: begin", "\n~~gpuaas-api LOG:  statement: commit",
		"\n~~gpuaas-api LOG:  execute stmtcache_2: SELECT a\n\t\tFROM b WHERE c = $1\n~~gpuaas-api DETAIL:  parameters: $1 = 'it''s: 1', $2 = NULL",
		"\n~~gpuaas-api LOG:  execute stmtcache_3: SELECT revision FROM policy_revision WHERE id = $1\n~~gpuaas-api DETAIL:  parameters: $1 = '9'", "\n~~other LOG:  statement: SELECT 2",
		"\n~~gpuaas-api LOG:  statement: commit\n",
	}, "")
	got := lab.LastCreate(lab.Entries(log))
	if len(got) != 2 || got[0].Sql != "SELECT a\n\tFROM b WHERE c = $1" || got[1].Sql != "commit" {
		t.Fatalf("got %q", got)
	}
	if want := []string{"'it''s: 1'", "NULL"}; !slices.Equal(got[0].Params, want) {
		t.Errorf("got %q, want %q", got[0].Params, want)
	}
	v := lab.Vary{Fresh: map[string]string{}}
	for logged, want := range map[string]string{
		"'it''s: 1'":                             `(E'it''s\x3A 1')::text`,
		"NULL":                                   `NULL::text`,
		"'" + lab.TenantPrefix + "100000000003'": `(E'` + lab.TenantPrefix + `' || :t || E'')::text`,
		"'captured-3'":                           `(E'captured-' || :n || E'')::text`,
		"'GPU-" + lab.SlotPrefix + "100000000009'": `(E'GPU-` + lab.SlotPrefix + `' || :s || E'')::text`,
		"'0199a000-0000-7000-8000-1234567890ab'":   `(E'99990000-0000-7000-8000-' || :n || E'')::text`,
	} {
		if got := v.Expression(logged, "text"); got != want {
			t.Errorf("%s became %s, want %s", logged, got, want)
		}
	}
}

func TestQuantileWasMeasured(t *testing.T) {
	t.Parallel()
	list := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := lab.Quantile(list, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}
