//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
)

// faulty lists fleets that must not start: the file, its change, and the position of the expected
// finding.
var faulty = map[string]struct{ file, from, to, at string }{
	"syntax":         {"nodes.cue", "nodes: [", "nodes: [{", `nodes\.cue:\d+:\d+`},
	"unknown field":  {"nodes.cue", `sku: "t4", gpus: 4`, `sku: "t4", gpuz: 4`, `nodes\.cue:\d+:\d+`},
	"wrong type":     {"nodes.cue", `sku: "t4", gpus: 4`, `sku: "t4", gpus: "four"`, `nodes\.cue:\d+:\d+`},
	"unknown SKU":    {"nodes.cue", `sku: "t4", gpus: 4`, `sku: "t5", gpus: 4`, `nodes\.cue:\d+:\d+`},
	"name twice":     {"nodes.cue", `metadata: name: "gpu-t4-01"`, `metadata: name: "gpu-l40s-01"`, `nodes\.cue:\d+:\d+`},
	"beyond bounds":  {"policies.cue", `"node.report_seconds", value: 2`, `"node.report_seconds", value: 2000`, `policies\.cue:\d+:\d+`},
	"unknown policy": {"policies.cue", `"node.report_seconds"`, `"node.report_secunds"`, `policies\.cue:\d+:\d+`},
	"negative price": {"skus.cue", "price: amountMinor: 249", "price: amountMinor: -249", `skus\.cue:\d+:\d+`},
}

// names is a list of all names that would be right. It grows with every field and
// policy key; the validator's own tests compare it.
var names = regexp.MustCompile(`\(expected one of [^)]+\)`)

func TestFaultyFleet(t *testing.T) {
	t.Parallel()
	for rule, c := range faulty {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			h := newInstallation(t)
			edit(t, filepath.Join(h.repo, "environments", "dev", c.file), c.from, c.to)
			commit(t, h.repo, "broken")
			h.prepare()
			golden := filepath.Join("testdata", "faulty", strings.ReplaceAll(rule, " ", "_")+".golden")
			got := h.cli("up", "--headless", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--issuer-listen", "127.0.0.1:0", "--payments-listen", "127.0.0.1:0", "--mail-listen", "127.0.0.1:0", "--data-dir", h.data())
			if got.code != 1 || !regexp.MustCompile(c.at).MatchString(got.err) || !strings.Contains(got.err, "nothing was started") {
				t.Errorf("exit %d:\n%s", got.code, got.err)
			}
			said := names.ReplaceAllString(got.err, "(expected one of …)")
			if os.Getenv("E2E_UPDATE") != "" {
				must(t, os.WriteFile(golden, []byte(said), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if said != string(want) {
				t.Errorf("printed\n%s\ninstead of\n%s", said, want)
			}
			if got := h.cli("validate", "environments/dev"); got.code != 1 || !regexp.MustCompile(c.at).MatchString(got.out+got.err) {
				t.Errorf("validate: exit %d:\n%s%s", got.code, got.out, got.err)
			}
		})
	}
}

// A running installation retains its last good revision while its file is invalid, reports so, and syncs
// again after the file is corrected.
func TestBrokenFileKeepsLastGoodRevision(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	file := filepath.Join(h.repo, "environments", "dev", "nodes.cue")
	good, err := os.ReadFile(file)
	must(t, err)

	edit(t, file, `sku: "t4", gpus: 4`, `sku: "t4", gpus: "four"`)
	until(t, patience, "healthz names the place", func() error {
		time.Sleep(commandPause)
		if s := source(t, h); !regexp.MustCompile(`nodes\.cue:\d+:\d+`).MatchString(s) {
			return fmt.Errorf("the source reports %q", s)
		}
		return nil
	})
	if got := h.cli("--profile", "default-operator", "get", "revisions"); got.code != 0 || !strings.Contains(got.out, "invalid") {
		t.Errorf("get revisions: exit %d\n%s%s", got.code, got.out, got.err)
	}
	scenario(t, h) // on the last good revision

	must(t, os.WriteFile(file, []byte(strings.Replace(string(good), `metadata: name: "gpu-t4-01"`, `metadata: {name: "gpu-t4-01", labels: {mended: "yes"}}`, 1)), 0o644))
	until(t, patience, "it follows again", func() error {
		time.Sleep(commandPause)
		if s := source(t, h); s != "" {
			return fmt.Errorf("the source reports %q", s)
		}
		db, err := h.sql(t.Context())
		if err != nil {
			return err
		}
		defer db.Close(t.Context())
		var n int
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM desired_objects WHERE labels->>'mended' = 'yes'`).Scan(&n); err != nil || n != 1 {
			return fmt.Errorf("%d objects carry the label, %v", n, err)
		}
		return nil
	})
	h.converges(t, patience, check.Expect{})
}

// source returns the message of the health check of the Git source, or an empty string if the sync
// works.
func source(t *testing.T, h *installation) string {
	t.Helper()
	reply := h.cli("--profile", "default-operator", "doctor", "-o", "json")
	var all struct {
		Checks []struct{ Name, Message string }
	}
	must(t, json.Unmarshal([]byte(reply.out), &all))
	for _, c := range all.Checks {
		if c.Name == "server/source" {
			return strings.TrimPrefix(c.Message, "-")
		}
	}
	t.Fatalf("doctor does not list the source: %s %s", reply.out, reply.err)
	return ""
}
