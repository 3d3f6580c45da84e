package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// TestMain makes the cluster of the tests durable: a server rejects another one.
func TestMain(m *testing.M) {
	pgtest.Durable()
	os.Exit(m.Run())
}

// TestEveryAlertFires starts a server, causes the condition of each alert, and evaluates the expression of the alert on what
// the server exports. An alert without a row in causes fails. So does a metric of the documents that nothing has written.
func TestEveryAlertFires(t *testing.T) {
	t.Parallel()
	alerts := readAlerts(t)
	if have, want := slices.Sorted(maps.Keys(causes)), slices.Sorted(maps.Keys(alerts)); !slices.Equal(have, want) {
		t.Fatalf("causes of %v, alerts %v", have, want)
	}
	a := startAlarmed(t)
	for _, name := range append(slices.Sorted(maps.Keys(without(causes, stopping))), stopping) {
		if text := a.exported(); fires(t, alerts[name], text) {
			t.Errorf("%s fires before its condition", name)
		}
		causes[name](a)
		deadline := time.Now().Add(5 * time.Second)
		for !fires(t, alerts[name], a.exported()) {
			if time.Now().After(deadline) {
				t.Errorf("%s does not fire: %s", name, alerts[name])
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	text := a.exported()
	for name, place := range documented(t) {
		if !regexp.MustCompile(`(?m)^` + name + `(_bucket|_sum|_count)?[{ ]`).MatchString(text) {
			t.Errorf("%s names %s, and nothing has written it", place, name)
		}
	}
}

const insertActive = `
	INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, price_minor, currency, login, host_uid, node_id, status, active_at)
	SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a', 't4', 'eu1', 1, 1, 'EUR', 'u', 1, $node, 'active', now()`

// Metrics without an alert move with what they measure.
func TestMetricsMove(t *testing.T) {
	t.Parallel()
	a := startAlarmed(t)
	blocker, err := a.db.Begin(t.Context()) // the relay publishes no event that is later than an open transaction
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocker.Rollback(context.WithoutCancel(t.Context())) }()
	for _, m := range []struct {
		sample string
		cause  func(*alarmed)
	}{
		{`gpuaas_allocations{sku="t4",status="active"} 1`, sqlCause(insertActive)},
		{`gpuaas_nodes{health="degraded",lifecycle="active",reachability="reachable"} 1`, sqlCause(`UPDATE nodes SET health = 'degraded', reachability = 'reachable'`)},
		{`gpuaas_jobs{kind="x",state="discarded"} 1`, sqlCause(`
			INSERT INTO river.river_job (kind, state, max_attempts, args, finalized_at) VALUES ('x', 'discarded', 1, '{}', now())`)},
		{`gpuaas_http_errors_total{code="token_missing",operation="listAllocations"} 1`, (*alarmed).anonymous},
		{`gpuaas_outbox_pending{stream="PAYMENTS"} 1`, func(a *alarmed) {
			if _, err := blocker.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
				t.Fatal(err)
			}
			a.exec(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, payload) VALUES (gen_random_uuid(), 'PAYMENTS', 'payments.x', 'x', 1, '{}')`)
		}},
		{`gpuaas_dead_letters{stream="PAYMENTS"} 1`, sqlCause(`
			INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, dead_at) VALUES (gen_random_uuid(), 'relay', gen_random_uuid(), 'PAYMENTS', 'payments.x', 'x', now())`)},
		{`gpuaas_consumer_pending{consumer="c"} 3`, sqlCause(`
			INSERT INTO event_consumers (name, stream, epoch, pending, redelivered, oldest_at) VALUES ('c', 'PAYMENTS', 'e', 3, 0, now())`)},
		{`gpuaas_consumer_failures_total{consumer="ops_dlq"} 1`, func(a *alarmed) {
			js, err := natsd.JetStream(a.nats)
			if err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(10 * time.Second) // the relay creates the stream
			for {
				if _, err = js.Publish(t.Context(), "dlq.payments.x", []byte("{")); err == nil || time.Now().After(deadline) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			for !strings.Contains(a.exported(), `gpuaas_consumer_failures_total{consumer="ops_dlq"} 1`) && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond)
			}
		}},
	} {
		if strings.Contains(a.exported(), m.sample) {
			t.Errorf("%s before its cause", m.sample)
		}
		m.cause(a)
		name, _, _ := strings.Cut(m.sample, "{")
		if text := a.exported(); !strings.Contains(text, m.sample) {
			t.Errorf("no %s in %q", m.sample, regexp.MustCompile(`(?m)^`+name+`.*`).FindAllString(text, -1))
		}
	}
	for _, series := range []string{
		`gpuaas_outbox_oldest_age_seconds{stream="PAYMENTS"}`, `gpuaas_db_connections{role="work",state="idle"}`, `gpuaas_db_connections_limit{role="api"} 16`,
		`gpuaas_db_connection_wait_seconds_total{role="api"}`, `gpuaas_db_acquisitions_total{result="immediate",role="api"}`, "gpuaas_nats_connected 1", `gpuaas_stream_bytes{stream="DLQ"}`, `gpuaas_http_request_duration_seconds_count{operation="listAllocations",status="4xx"} 1`,
	} {
		if !strings.Contains(a.exported(), series) {
			t.Errorf("no %s", series)
		}
	}
}

// readAlerts returns the expressions by the names of the alerts. Alerts on what Prometheus knows by itself have no metric of
// the server.
func readAlerts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range readRules(t, "../deploy/alerts/gpuaas.rules.yaml") {
		if strings.Contains(r.Expr, "gpuaas_") {
			all[r.Alert] = r.Expr
		}
	}
	return all
}

type rule struct {
	Alert, Record, Expr string
	Labels              map[string]string
}

func readRules(t *testing.T, path string) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var (
	// An expression compares one metric. Functions around it, such as increase, change no sign: the counters begin at zero.
	expression = regexp.MustCompile(`(time\(\) - )?[^_]*?(gpuaas_\w+)(?:\{([^}]*)\})?.* (>|<|!=) ([\d.]+)$`)
	matcher    = regexp.MustCompile(`(\w+)=~?"([^"]*)"`)
	sample     = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? (\S+)$`)
)

// fires evaluates the expression of an alert on exported text.
func fires(t *testing.T, expr, text string) bool {
	t.Helper()
	e := expression.FindStringSubmatch(expr)
	if e == nil {
		t.Fatalf("the test cannot evaluate %s", expr)
	}
	limit, err := strconv.ParseFloat(e[5], 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range sample.FindAllStringSubmatch(text, -1) {
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil || line[1] != e[2] || !labelled(line[2], e[3]) {
			continue
		}
		if e[1] != "" {
			value = float64(time.Now().Unix()) - value
		}
		if e[4] == ">" && value > limit || e[4] == "<" && value < limit || e[4] == "!=" && value != limit {
			return true
		}
	}
	return false
}

func labelled(labels, matchers string) bool {
	for _, m := range matcher.FindAllStringSubmatch(matchers, -1) {
		if !regexp.MustCompile(`(^|,)` + m[1] + `="` + m[2] + `"(,|$)`).MatchString(labels) {
			return false
		}
	}
	return true
}

// documented returns the metrics that alerts and documents name, each with the place.
func documented(t *testing.T) map[string]string {
	t.Helper()
	metric, all := regexp.MustCompile(`\bgpuaas_[a-z_]+_(?:total|seconds|ratio|minor|stopped|missing|overdue|rollouts|gpus)\b`), map[string]string{}
	for _, root := range []string{"../deploy", "../docs"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".json") || path == metricsPage { // TestMetricsReference compares these
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range metric.FindAllString(string(text), -1) {
				all[name] = path
			}
			return err
		})
		if err != nil || len(all) == 0 {
			t.Fatalf("%d metrics: %v", len(all), err)
		}
	}
	return all
}

// startAlarmed starts a server whose control loop plans nothing, so that what is due stays due. Its payment provider
// reports one expired session, and its source has no files.
func startAlarmed(t *testing.T) *alarmed {
	t.Helper()
	return startAlarmedOn(t, pgtest.URL(t))
}

func startAlarmedOn(t *testing.T, address string) *alarmed {
	t.Helper()
	db, err := pg.Open(context.WithoutCancel(t.Context()), address, "test", 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	a := &alarmed{t: t, db: db, node: ids.New[ids.Node]()}
	a.exec(`WITH r AS (UPDATE policy_revision SET revision = revision + 1 RETURNING revision)
		INSERT INTO policy_values (key, scope, subject, value, revision) SELECT 'reconcile.enabled', 'platform', 'platform', 'false', revision FROM r`)
	a.exec(`INSERT INTO nodes (id, name, spec, lifecycle) VALUES ('` + a.node.String() + `', 'n1', '{"sku": "t4", "region": "eu1", "onboarding": "manual", "gpus": 1}', 'active')`)
	bus, err := natsd.Start(natsd.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Stop)
	provider := httptest.NewServer(http.HandlerFunc(expiredSession))
	t.Cleanup(provider.Close)
	if a.Server, err = Start(context.WithoutCancel(t.Context()), Config{
		DatabaseURL: address, NATS: func() (*nats.Conn, error) { return bus.Connect("test") }, Roles: []Role{RoleAPI, RoleReconcile, RoleWork, RoleNode, RoleRelay, RoleTerminal},
		Environment: "test", Profile: desired.Environment{
			Vendor: "v", Service: "s", Region: "eu1", TrustDomain: "gpuaas.test", Development: true, Payments: desired.Payments{Provider: desired.ProviderStripe},
		},
		Payments: Payments{SecretKey: "sk_test_1", WebhookSecret: "whsec_1", APIURL: provider.URL}, Source: &sync.Root{Name: "empty"},
		Listen: "127.0.0.1:0", NodeListen: "127.0.0.1:0", RelayListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", NodeHosts: []string{"127.0.0.1"}, StateDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return a
}

func expiredSession(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{"object": "list", "data": []any{}, "has_more": false}
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusBadRequest)
		body = map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": "No such payment method."}}
	case strings.HasPrefix(r.URL.Path, "/v1/checkout/sessions/"):
		body = map[string]any{"id": "cs_1", "object": "checkout.session", "status": "expired", "payment_status": "unpaid", "amount_total": 500, "currency": "eur"}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// anonymous calls the API without credentials.
func (a *alarmed) anonymous() { a.get("/api/v1/allocations") }

func (a *alarmed) get(path string) { a.t.Helper(); a.getAs(path, "") }

func (a *alarmed) getAs(path, token string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.URL()+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = response.Body.Close()
}

// exec runs a statement without triggers, which reject changes of what is append-only.
func (a *alarmed) exec(sql string) {
	a.t.Helper()
	err := pgx.BeginFunc(a.t.Context(), a.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(a.t.Context(), `SET LOCAL session_replication_role = replica; `+sql)
		return err
	})
	if err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
}

func (a *alarmed) do(work func(pgx.Tx) error) {
	a.t.Helper()
	if err := pgx.BeginFunc(a.t.Context(), a.db, work); err != nil {
		a.t.Fatal(err)
	}
}

// exported returns what Prometheus would read.
func (a *alarmed) exported() string {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.MetricsURL(), http.NoBody)
	if err != nil {
		a.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		a.t.Fatal(fmt.Errorf("%s: %w", response.Status, err))
	}
	return string(text)
}
