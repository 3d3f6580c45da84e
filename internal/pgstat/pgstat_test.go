package pgstat_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/pgstat"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// gather returns the values of all metrics, by name and labels.
func gather(t *testing.T, m *pgstat.Metrics) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += "/" + l.GetValue()
			}
			all[name] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return all
}

// The role of the workers reads what other sessions do, without a right of its own.
func TestMetricsFollowPostgreSQL(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	now := time.Now()
	m := &pgstat.Metrics{DB: pgtest.As(t, db, "gpuaas_work"), Clock: clock.At(func() time.Time { return now })}
	before := gather(t, m)
	if before["gpuaas_db_size_bytes"] < 1<<20 || before["gpuaas_db_transaction_id_age/transaction"] < 1 {
		t.Errorf("size or age is missing: %v", before)
	}

	holder, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`); err != nil {
		t.Fatal(err)
	}
	ended := waitForLock(t, db)
	until(t, m, func(all map[string]float64) bool { return all["gpuaas_db_lock_waits"] > 0 })
	now = now.Add(10 * time.Minute)
	during := gather(t, m)
	if during["gpuaas_db_oldest_transaction_seconds"] < 600 || during["gpuaas_db_lock_waits"] < 1 || during["gpuaas_db_lock_wait_seconds"] <= 0 {
		t.Errorf("an open transaction and a waiting session: %v", during)
	}

	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	until(t, m, func(all map[string]float64) bool {
		return all["gpuaas_db_oldest_transaction_seconds"] < 600 && all["gpuaas_db_lock_waits"] == 0
	})
}

// until waits for a state. Tests of the same cluster have locks and transactions of their own for a moment.
func until(t *testing.T, m *pgstat.Metrics, reached func(map[string]float64) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		all := gather(t, m)
		if reached(all) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %v", all)
		}
	}
}

func waitForLock(t *testing.T, db *pgxpool.Pool) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		ended <- pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`)
			return err
		})
	}()
	return ended
}

// WAL stays until a slot has received it. The clusters of other tests have no replication.
func TestReplicationLagIsThatOfTheSlowestSlot(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: t.TempDir(), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(pgcluster.Immediate); err != nil {
			t.Error(err)
		}
	})
	db, err := pg.Open(context.WithoutCancel(t.Context()), cluster.URL(), "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	const lag = "gpuaas_db_replication_lag_bytes"
	m := &pgstat.Metrics{DB: db}
	if all := gather(t, m); all[lag] != 0 || len(all) == 0 {
		t.Errorf("without a slot: %v", all)
	}
	for _, sql := range []string{
		`SELECT pg_create_physical_replication_slot('standby', true)`, `SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if all := gather(t, m); all[lag] < 1000000 {
		t.Errorf("a slot that has not received 1 MB: %v", all[lag])
	}
}

// counted counts the statements.
type counted struct {
	pg.Queryer

	n int
}

func (c *counted) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.n++
	return c.Queryer.QueryRow(ctx, sql, args...)
}

func TestAScrapeIsOneStatement(t *testing.T) {
	t.Parallel()
	now := time.Now()
	db := &counted{Queryer: pgtest.Clone(t)}
	m := &pgstat.Metrics{DB: db, Clock: clock.At(func() time.Time { return now })}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {time.Minute, 1}, {5 * time.Minute, 2}} {
		now, db.n = now.Add(step.after), 0
		if all := gather(t, m); db.n != step.want || all["gpuaas_db_size_bytes"] == 0 {
			t.Errorf("%s later: %d statements, want %d: %v", step.after, db.n, step.want, all)
		}
	}
}

// A database that cannot be read leaves a gap, and no zero.
func TestUnreadableIsAbsent(t *testing.T) {
	t.Parallel()
	db := pgtest.As(t, pgtest.Clone(t), "gpuaas_work")
	db.Close()
	if all := gather(t, &pgstat.Metrics{DB: db}); len(all) != 0 {
		t.Errorf("metrics of a closed pool: %v", all)
	}
}
