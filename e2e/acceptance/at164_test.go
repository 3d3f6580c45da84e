//go:build e2e

package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/support"
)

// canary returns a secret that is in the installation.
func canary(place string, n int) string { return fmt.Sprintf("canary-%s-%03d", place, n) }

// Canaries of each place. All of them are 859.
const (
	inEnvironment = 300
	inLog         = 59
	inJobs        = 300 // three in each of 100 jobs
	inDeadLetters = 200 // two in each of 100
)

// plantEnvironment sets secrets of the process before the installation starts.
func plantEnvironment() error {
	for n := range inEnvironment {
		name, value := fmt.Sprintf("GPUAAS_PLANTED_%d_SECRET", n), canary("environment", n)
		if n%2 == 0 {
			name, value = fmt.Sprintf("GPUAAS_PLANTED_%d_URL", n), "https://user:"+value+"@planted.example.org/"
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func plantRows(t *testing.T) {
	t.Helper()
	url, err := pgcluster.URLOf(filepath.Join(dataDir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context()) //nolint:errcheck // of a test
	batch := &pgx.Batch{}
	for n := range inJobs / 3 {
		text := fmt.Sprintf(`POST https://api.example.org: Authorization: Bearer %s; {"api_key":"%s"} of %s@example.org`, canary("job", 3*n), canary("job", 3*n+1), canary("job", 3*n+2))
		batch.Queue(`INSERT INTO river.river_job (kind, state, max_attempts, args, finalized_at, errors)
			VALUES ('planted', 'discarded', 1, '{}', now(), ARRAY[jsonb_build_object('at', now(), 'attempt', 1, 'error', $1::text, 'trace', '')])`, text)
	}
	for n := range inDeadLetters / 2 {
		text := fmt.Sprintf("dial postgres://gpuaas:%s@db.example.org/x: password=%s", canary("letter", 2*n), canary("letter", 2*n+1))
		batch.Queue(`INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, dead_at) VALUES (gen_random_uuid(), 'planted', gen_random_uuid(), 'PAYMENTS', 'payments.x', $1, now())`, text)
	}
	if err := db.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		request{as: "operator", method: "POST", path: "/api/v1/admin/dead-letters/discard", body: map[string]any{"consumer": "planted", "reason": "a test"}}.send(t)
	})
}

// A bundle contains none of 859 secrets that are in the environment, the log, errors of jobs and dead letters.
func TestAT164(t *testing.T) {
	proves(t)
	if inEnvironment+inLog+inJobs+inDeadLetters != 859 {
		t.Fatal("the canaries are not 859")
	}
	plantRows(t)
	for n := range inLog {
		installLog.WarnContext(t.Context(), "planted", "token", canary("log", n), "consumer", "planted")
	}
	const path = "/api/v1/admin/support-bundle"
	if r := (request{method: "GET", path: path}).send(t); r.status != http.StatusForbidden {
		t.Errorf("a tenant: %d %.200s", r.status, r.body)
	}
	r := request{as: "operator", method: "GET", path: path}.send(t)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	b, err := support.Open(r.body)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range b.Content {
		if at := bytes.Index(text, []byte("canary-")); at >= 0 {
			t.Errorf("%s contains a canary: %s", name, text[max(0, at-60):min(len(text), at+40)])
		}
	}
	for _, name := range []string{
		"jobs.json", "dead-letters.json", "log.jsonl", "configuration.json", "process.json", "statements.json", "goroutines.txt", "heap.pprof", support.MetricsFile, support.HealthFile, support.OverviewFile,
		"policies.json", "nodes.json", "plans.json", "revisions.json", "git-sources.json", "drift.json", "consumers.json",
	} {
		if len(b.Content[name]) == 0 {
			t.Errorf("the bundle has no %s: %v", name, b.Omitted)
		}
	}
	for name, want := range map[string]int{"jobs.json": inJobs / 3, "dead-letters.json": inDeadLetters / 2, "log.jsonl": inLog} { // the planted texts are there, masked
		if n := bytes.Count(b.Content[name], []byte("planted")); n < want {
			t.Errorf("%s has %d of %d planted texts", name, n, want)
		}
	}
	named := request{as: "operator", method: "GET", path: path + "?pseudonyms=true"}.send(t)
	hidden, err := support.Open(named.body)
	if err != nil {
		t.Fatalf("%d: %v", named.status, err)
	}
	var nodes struct{ Items []struct{ Name string } }
	if err := json.Unmarshal(b.Content["nodes.json"], &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("%s: %v", b.Content["nodes.json"], err)
	}
	for name, text := range hidden.Content {
		if bytes.Contains(text, []byte(nodes.Items[0].Name)) {
			t.Errorf("%s names the node %s, in spite of pseudonyms", name, nodes.Items[0].Name)
		}
	}
	t.Logf("%d bytes, %d files, omitted: %v", len(r.body), len(b.Files), b.Omitted)
}
