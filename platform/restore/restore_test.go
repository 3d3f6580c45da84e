package restore_test

import (
	"context"
	"log/slog"
	"strconv"
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
	if newest, err := audit.Newest(t.Context(), db, nil); err != nil || newest.Before(now) {
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

// waiting returns whether another transaction waits for a lock of a table.
func waiting(t *testing.T, db *pgxpool.Pool, table string) bool {
	t.Helper()
	return read[bool](t, db, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted)`, table)
}

func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !yes(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A server that starts after the begin has counted the servers, and before it commits, waits for the commit.
func TestAServerThatStartsDuringTheBeginIsClosed(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	hold, err := db.Begin(t.Context())
	must(t, err)
	_, err = hold.Exec(t.Context(), `LOCK TABLE sessions IN SHARE MODE`) // stops the begin at its last statements
	must(t, err)
	began, started := make(chan error, 1), make(chan error, 1)
	at := read[time.Time](t, db, `SELECT now()`)
	go func() {
		_, err := restore.Begin(t.Context(), db, restore.Point{At: at, By: "ada"})
		began <- err
	}()
	until(t, "the begin waits", func() bool { return waiting(t, db, "sessions") })
	g := &restore.Gate{DB: db, Log: slog.New(slog.DiscardHandler)}
	go func() { started <- g.Refresh(t.Context()) }()
	until(t, "the server has read the restores, or waits", func() bool { return len(started) == 1 || waiting(t, db, "restores") })
	must(t, hold.Rollback(t.Context()))
	must(t, <-began)
	must(t, <-started)
	if !g.Closed() {
		t.Error("the server has started its loops")
	}
}

// A wrong point is corrected before the confirmation. The audit rows since the begin are not of the lost history.
func TestAPointIsCorrected(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	_, err := db.Exec(t.Context(), `INSERT INTO audit_logs (id, actor, action, target_urn, at) VALUES (gen_random_uuid(), 'a', 'b', 'c', now() - interval '1 hour')`)
	must(t, err)
	now := read[time.Time](t, db, `SELECT now()`)
	right := restore.Point{At: now.Add(-30*time.Minute + 999*time.Nanosecond), By: "ada", Replace: true}
	if _, err := restore.Begin(t.Context(), db, right); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("without a restore: %v", err)
	}
	wrong, err := begin(t, db, now)
	must(t, err)
	if _, err := begin(t, db, right.At); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("another point without --replace: %v", err)
	}
	for range 2 {
		r, err := restore.Begin(t.Context(), db, right)
		if err != nil || r.ID != wrong.ID || r.BackupID != "" || !r.RestoredTo.Equal(right.At.Truncate(time.Microsecond)) {
			t.Errorf("corrected: %+v, %v", r, err)
		}
	}
	if n := read[int](t, db, `SELECT count(*) FROM audit_logs WHERE action = 'restore.begin'`); n != 2 {
		t.Errorf("%d audit rows of a begin and a correction", n)
	}
	for reason, at := range map[string]time.Time{"before the newest audit row": now.Add(-2 * time.Hour), "after the begin": wrong.BeganAt.Add(time.Microsecond)} {
		if _, err := restore.Begin(t.Context(), db, restore.Point{At: at, By: "ada", Replace: true}); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A dump of a cluster with more than 2^32 transactions is restored to a new one: positions continue after the stored ones.
func TestPositionsContinueAfterADumpWithHighOnes(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	const high = int64(5) << 32
	_, err := db.Exec(t.Context(), `INSERT INTO audit_logs (id, actor, action, target_urn, at, xid)
		VALUES (gen_random_uuid(), 'a', 'b', 'c', now() - interval '1 hour', $1::text::xid8)`, strconv.FormatInt(high, 10))
	must(t, err)
	_, err = begin(t, db, read[time.Time](t, db, `SELECT now()`))
	must(t, err)
	if next, horizon := read[int64](t, db, `SELECT xact_position()::text::bigint`), read[int64](t, db, `SELECT xact_horizon()::text::bigint`); next < high+1<<32 || horizon < high {
		t.Errorf("the next position is %d, the horizon %d; %d is stored", next, horizon, high)
	}
}
