package services_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgstat"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs/monitor"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/services"
)

// recorder stores the statements of queries with their arguments.
type recorder struct {
	*pgxpool.Pool

	mu         sync.Mutex
	statements map[string][]any
	queries    int
}

func (r *recorder) record(sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements[sql] = args
	r.queries++
}

func (r *recorder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	r.record(sql, args)
	return r.Pool.Query(ctx, sql, args...)
}

func (r *recorder) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r.record(sql, args)
	return r.Pool.QueryRow(ctx, sql, args...)
}

func (r *recorder) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		r.record(q.SQL, q.Arguments)
	}
	return r.Pool.SendBatch(ctx, b)
}

var _ pg.Pool = (*recorder)(nil)

// grown lists tables whose rows end and stay, each with a statement that inserts one that has ended for each n.
var grown = map[string]string{
	"allocations": `INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, price_minor, currency, login, host_uid, node_id, status, active_at, ended_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a', 't4', 'eu1', 1, 1, 'EUR', 'u', 1, gen_random_uuid(), 'released', now(), now()`,
	"usage_records": `INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s, end_s, closed_by)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 't4', 1, 1, 'EUR', gen_random_uuid(), n, n + 1, 'release_requested'`,
	"river_job": `INSERT INTO river.river_job (kind, state, max_attempts, args, finalized_at) SELECT 'k', 'completed', 1, '{}', now()`,
	"drift":     `INSERT INTO drift (kind, object_id, field, status, healed_at) SELECT 'Node', gen_random_uuid(), 'gpus', 'healed', now()`,
	"node_tasks": `INSERT INTO node_tasks (id, node_id, type, fence, generation, attempt, body, signature, status, finished_at, expires_at)
		SELECT gen_random_uuid(), gen_random_uuid(), 'probe', 1, 1, 1, '', '', 'succeeded', now(), now()`,
	"reconcile_due": `INSERT INTO reconcile_due (kind, object_id, due_at, reason) SELECT 'Allocation', gen_random_uuid(), now() + interval '1 day', 'ttl'`,
}

const rows = 20000

// TestAScrapeReadsNoBigTable runs all collectors on tables with many rows that have ended. The number of statements does not
// depend on rows, and no plan reads such a table from its begin to its end.
func TestAScrapeReadsNoBigTable(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	empty := scrape(t, db).queries
	must(t, pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`) // without triggers and foreign keys
		for _, sql := range grown {
			if err == nil {
				_, err = tx.Exec(t.Context(), sql+` FROM generate_series(1, $1::int) AS n`, rows)
			}
		}
		return err
	}))
	_, err := db.Exec(t.Context(), `ANALYZE`)
	must(t, err)
	full := scrape(t, db)
	if len(full.statements) < 15 || full.queries != empty {
		t.Errorf("%d statements, %d different ones; %d before the tables had rows", full.queries, len(full.statements), empty)
	}
	for _, sql := range slices.Sorted(maps.Keys(full.statements)) {
		var text []byte
		must(t, db.QueryRow(t.Context(), `EXPLAIN (FORMAT json) `+sql, full.statements[sql]...).Scan(&text))
		var plan any
		must(t, json.Unmarshal(text, &plan))
		for _, table := range scanned(plan) {
			if grown[table] != "" {
				t.Errorf("a scrape reads all of %s:\n%s", table, sql)
			}
		}
	}
}

// scrape gathers the metrics of the roles with the most statements.
func scrape(t *testing.T, db *pgxpool.Pool) *recorder {
	t.Helper()
	r := &recorder{Pool: db, statements: map[string][]any{}}
	c := configOf(t)
	c.DB = r
	s, err := services.New(c)
	must(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		services.LoopMetrics{Services: s}, services.WorkerMetrics{Services: s}, monitor.Queue{DB: r}, &pgstat.Metrics{DB: r},
		nodetask.QueuedMetrics{Store: &nodetask.Store{DB: r, Hints: s.Hints}},
	)
	_, err = registry.Gather()
	must(t, err)
	return r
}

// scanned returns the tables that a plan reads without an index.
func scanned(v any) (tables []string) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			tables = append(tables, scanned(one)...)
		}
	case map[string]any:
		if name, ok := v["Relation Name"].(string); ok && v["Node Type"] == "Seq Scan" {
			tables = append(tables, name)
		}
		for _, one := range v {
			tables = append(tables, scanned(one)...)
		}
	}
	return tables
}
