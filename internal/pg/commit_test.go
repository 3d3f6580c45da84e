package pg_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var errRejected = errors.New("refused")

func TestCommitKeepsAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second string
		refuse bool
		rows   int
		calls  int
	}{
		"all statements succeed":    {second: `INSERT INTO written VALUES (2)`, rows: 2, calls: 1},
		"a statement fails":         {second: `INSERT INTO written VALUES (1)`},
		"a callback fails":          {second: `INSERT INTO written VALUES (2)`, refuse: true},
		"a statement is no SQL":     {second: `INSERT INTO nowhere VALUES (2)`},
		"a constraint waits for it": {second: `INSERT INTO late VALUES (1), (1)`, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Clone(t)
			if _, err := db.Exec(t.Context(), `CREATE TABLE written (i int PRIMARY KEY); CREATE TABLE late (i int UNIQUE DEFERRABLE INITIALLY DEFERRED)`); err != nil {
				t.Fatal(err)
			}
			b := &pgx.Batch{}
			b.Queue(`INSERT INTO written VALUES (1)`)
			b.Queue(c.second).Exec(func(pgconn.CommandTag) error {
				if c.refuse {
					return errRejected
				}
				return nil
			})
			calls := 0
			err := pg.Commit(t.Context(), db, b, func() { calls++ })
			if (err == nil) != (c.rows > 0) || c.refuse && !errors.Is(err, errRejected) || calls != c.calls {
				t.Errorf("got %v after %d calls", err, calls)
			}
			var rows int
			if err := db.QueryRow(t.Context(), `SELECT count(*) FROM written`).Scan(&rows); err != nil || rows != c.rows {
				t.Errorf("%d rows are there, want %d (%v)", rows, c.rows, err)
			}
			if open := db.Stat().TotalConns(); open != 1 {
				t.Errorf("%d connections are open: a failed one was not reused", open)
			}
		})
	}
}
