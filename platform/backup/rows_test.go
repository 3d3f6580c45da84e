package backup

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// between runs a function after the snapshot and before the position is read.
type between struct {
	pg.Queryer

	run func()
}

func (b between) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if sql == selectAfter {
		b.run()
	}
	return b.Queryer.QueryRow(ctx, sql, args...)
}

// TestASnapshotAndItsPositionAreOneState: a commit in between, or an open transaction that could commit, is noticed.
func TestASnapshotAndItsPositionAreOneState(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	exec := func(q pg.Queryer, sql string) {
		t.Helper()
		if _, err := q.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(db, `CREATE TABLE counted_rows (n int)`)
	count := func(run func()) (int64, error) {
		t.Helper()
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		_, rows, err := countIn(t.Context(), between{db, run}, tx)
		return rows["public.counted_rows"], err
	}
	if n, err := count(func() {}); n != 0 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if _, err := count(func() { exec(db, `INSERT INTO counted_rows VALUES (1)`) }); !errors.Is(err, errBusy) {
		t.Errorf("a commit in between: %v", err)
	}
	open, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback(context.WithoutCancel(t.Context())) }()
	exec(open, `SELECT 1`)
	if n, err := count(func() {}); n != 1 || err != nil {
		t.Errorf("with a reader: %d rows, %v", n, err)
	}
	exec(open, `INSERT INTO counted_rows VALUES (2)`)
	if _, err := count(func() {}); !errors.Is(err, errBusy) {
		t.Errorf("an open transaction: %v", err)
	}
}
