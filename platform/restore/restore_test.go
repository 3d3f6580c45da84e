package restore_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/restore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read[T any](t *testing.T, db pg.Queryer, sql string, args ...any) (v T) {
	t.Helper()
	must(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func begin(t *testing.T, db *pgxpool.Pool, at time.Time) (restore.Restore, error) {
	t.Helper()
	return restore.Begin(t.Context(), db, restore.Point{At: at, Backup: "b1", By: "ada"})
}

func TestBeginRejectsWhatIsNoPointOfThisDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	_, err := db.Exec(t.Context(), `INSERT INTO audit_logs (id, actor, action, target_urn, at) VALUES (gen_random_uuid(), 'a', 'b', 'c', now() - interval '1 hour')`)
	must(t, err)
	now := read[time.Time](t, db, `SELECT now()`)
	for reason, at := range map[string]time.Time{"in the future": now.Add(time.Hour), "before the newest audit row": now.Add(-2 * time.Hour)} {
		if _, err := begin(t, db, at); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	server, err := pg.Open(t.Context(), db.Config().ConnString(), "gpuaas-work", 1)
	must(t, err)
	must(t, server.Ping(t.Context()))
	if _, err := begin(t, db, now); errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "gpuaas-work") {
		t.Errorf("with a server: %v", err)
	}
	server.Close()
	if open, err := restore.Open(t.Context(), db); open != nil || err != nil {
		t.Errorf("in progress: %+v, %v", open, err)
	}
}

func TestBeginEndsSessionsAndSkipsLostPositions(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	_, err := db.Exec(t.Context(), `
		WITH u AS (INSERT INTO users (id, oidc_subject, email, name, role) VALUES (gen_random_uuid(), 's', 'e', 'n', 'user') RETURNING id)
		INSERT INTO sessions (id, user_id, secret_hash, expires_at, authenticated_at) SELECT gen_random_uuid(), id, 'h', now() + interval '1 day', now() FROM u`)
	must(t, err)
	const position = `SELECT xact_position()::text::bigint`
	before, now := read[int64](t, db, position), read[time.Time](t, db, `SELECT now()`)
	r, err := begin(t, db, now)
	must(t, err)
	if again, err := begin(t, db, now); err != nil || again.ID != r.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	after := read[int64](t, db, position)
	if after-before < 1<<32 || after-before > 1<<33 {
		t.Errorf("the position went from %d to %d", before, after)
	}
	if stored, horizon := read[int64](t, db, `SELECT max(xid::text::bigint) FROM audit_logs WHERE action = 'restore.begin'`), read[int64](t, db, `SELECT xact_horizon()::text::bigint`); stored-before < 1<<32 || horizon-before < 1<<31 {
		t.Errorf("the audit row is at %d, before %d, horizon %d", stored, before, horizon)
	}
	if n := read[int](t, db, `SELECT count(*) FROM sessions WHERE ended_at IS NULL`); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	if newest, err := audit.Newest(t.Context(), db); err != nil || newest.Before(now) {
		t.Errorf("the newest audit row is of %s, %v", newest, err)
	}
}

// A loop runs while the gate is open, and ends while it is closed.
func TestAGateEndsAndStartsLoops(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	g := &restore.Gate{DB: db, Log: slog.New(slog.DiscardHandler)}
	must(t, g.Refresh(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	started, ended, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- g.While(ctx, func(ctx context.Context) error {
			started <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return ctx.Err()
		})
	}()
	<-started
	if g.Err() != nil || g.Closed() || g.Message() != "" {
		t.Error("the gate is closed")
	}
	_, err := begin(t, db, read[time.Time](t, db, `SELECT now()`))
	must(t, err)
	must(t, g.Refresh(t.Context()))
	<-ended
	if errs.CodeOf(g.Err()) != errs.Unavailable || !g.Closed() || g.BeganAt().IsZero() {
		t.Errorf("the gate is open: %v", g.Err())
	}
	_, err = db.Exec(t.Context(), `UPDATE restores SET confirmed_at = now(), confirmed_by = 'ada'`)
	must(t, err)
	must(t, g.Refresh(t.Context()))
	<-started
	stop()
	<-ended
	if err := <-done; err != nil {
		t.Error(err)
	}
}
