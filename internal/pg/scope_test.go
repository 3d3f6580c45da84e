package pg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// settings reads the scope of a transaction.
const settings = `SELECT coalesce(current_setting('gpuaas.tenant', true), '') || '/' || coalesce(current_setting('gpuaas.principal', true), '')`

// onePool returns a pool of one connection, so that consecutive callers share it.
func onePool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	cfg := pgtest.Clone(t).Config()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ways are all in which a service runs a statement.
var ways = map[string]func(context.Context, pg.Pool) (string, error){
	"query row": func(ctx context.Context, db pg.Pool) (s string, err error) {
		return s, db.QueryRow(ctx, settings).Scan(&s)
	},
	"query": func(ctx context.Context, db pg.Pool) (string, error) {
		rows, err := db.Query(ctx, settings)
		if err != nil {
			return "", err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		return all[0], err
	},
	"query, closed early": func(ctx context.Context, db pg.Pool) (s string, err error) {
		rows, err := db.Query(ctx, settings+` UNION ALL SELECT 'more'`)
		if err != nil {
			return "", err
		}
		rows.Next()
		err = rows.Scan(&s)
		rows.Close()
		return s, errors.Join(err, rows.Err())
	},
	"exec": func(ctx context.Context, db pg.Pool) (s string, err error) {
		if _, err := db.Exec(ctx, `INSERT INTO observed `+settings); err != nil {
			return "", err
		}
		return s, db.QueryRow(ctx, `DELETE FROM observed RETURNING s`).Scan(&s)
	},
	"batch": func(ctx context.Context, db pg.Pool) (s string, err error) {
		b := &pgx.Batch{}
		b.Queue(`SELECT 1`)
		b.Queue(settings).QueryRow(func(row pgx.Row) error { return row.Scan(&s) })
		return s, db.SendBatch(ctx, b).Close()
	},
	"batch, read in order": func(ctx context.Context, db pg.Pool) (s string, err error) {
		b := &pgx.Batch{}
		b.Queue(settings)
		results := db.SendBatch(ctx, b)
		err = results.QueryRow().Scan(&s)
		return s, errors.Join(err, results.Close())
	},
	"transaction": func(ctx context.Context, db pg.Pool) (s string, err error) {
		return s, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return tx.QueryRow(ctx, settings).Scan(&s) })
	},
	"commit": func(ctx context.Context, db pg.Pool) (s string, err error) {
		b := &pgx.Batch{}
		b.Queue(settings).QueryRow(func(row pgx.Row) error { return row.Scan(&s) })
		return s, pg.Commit(ctx, db, b, func() {})
	},
}

func TestScopeReachesEveryStatementAndEndsWithIt(t *testing.T) {
	t.Parallel()
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := onePool(t)
			if _, err := pool.Exec(t.Context(), `CREATE TABLE observed (s text)`); err != nil {
				t.Fatal(err)
			}
			mine := pg.Scope{Tenant: uuid.NewString(), Principal: uuid.NewString()}
			for _, c := range []struct {
				ctx  context.Context
				want string
			}{
				{t.Context(), "/"},
				{pg.WithScope(t.Context(), mine), mine.Tenant + "/" + mine.Principal},
				{t.Context(), "/"}, // the next user of the connection
				{pg.WithScope(t.Context(), pg.Platform), "platform/"},
				{pg.WithScope(t.Context(), pg.Scope{}), "/"},
			} {
				if got, err := ask(c.ctx, pg.Scoped{Pool: pool}); err != nil || got != c.want {
					t.Errorf("%+v: got %q, %v", pg.ScopeFrom(c.ctx), got, err)
				}
				if got, err := ask(t.Context(), pool); err != nil || got != "/" {
					t.Errorf("left behind: %q, %v", got, err)
				}
			}
		})
	}
}

func TestScopeEndsWithAFailure(t *testing.T) {
	t.Parallel()
	pool := onePool(t)
	db, ctx := pg.Scoped{Pool: pool}, pg.WithScope(t.Context(), pg.Platform)
	batch := func() *pgx.Batch {
		b := &pgx.Batch{}
		b.Queue(`SELECT 1/0`)
		return b
	}
	fails := map[string]error{
		"query row": db.QueryRow(ctx, `SELECT 1/0`).Scan(new(int)),
		"batch":     db.SendBatch(ctx, batch()).Close(),
		"commit":    pg.Commit(ctx, db, batch(), func() {}),
		"transaction": pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		}),
	}
	_, fails["exec"] = db.Exec(ctx, `SELECT 1/0`)
	rows, err := db.Query(ctx, `SELECT 1/0`)
	if err == nil {
		_, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	fails["query"] = err
	for name, err := range fails {
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "22012" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.QueryRow(ctx, `SELECT 1 WHERE false`).Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
	var left string
	if err := pool.QueryRow(t.Context(), settings).Scan(&left); err != nil || left != "/" {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if pool.Stat().NewConnsCount() != 1 {
		t.Errorf("%d connections were made: a failed one was not reused", pool.Stat().NewConnsCount())
	}
}

// What is deferred fails at the end of the implicit transaction, after the rows.
func TestScopedReportsTheErrorAtTheEnd(t *testing.T) {
	t.Parallel()
	pool := onePool(t)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE late (i int UNIQUE DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	const twice = `INSERT INTO late VALUES (1), (1) RETURNING i`
	db, ctx := pg.Scoped{Pool: pool}, pg.WithScope(t.Context(), pg.Platform)
	_, executed := db.Exec(ctx, twice)
	rows, err := db.Query(ctx, twice)
	if err == nil {
		_, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	for name, err := range map[string]error{"exec": executed, "query": err, "query row": db.QueryRow(ctx, twice).Scan(new(int))} {
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23505" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestScopeThatIsNoIdIsRejected(t *testing.T) {
	t.Parallel()
	db := pg.Scoped{Pool: onePool(t)}
	if _, err := db.Pool.Exec(t.Context(), `CREATE TABLE observed (s text)`); err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	refused := []pg.Scope{
		{Tenant: "'; DROP TABLE observed; --"},
		{Tenant: "PLATFORM"},
		{Tenant: "{" + id + "}"},
		{Tenant: "urn:uuid:" + id},
		{Tenant: id, Principal: "platform"},
		{Tenant: id, Principal: id + "'"},
		{Tenant: id[:35]},
	}
	for _, s := range refused {
		for name, ask := range ways {
			if got, err := ask(pg.WithScope(t.Context(), s), db); err == nil {
				t.Errorf("%s of %+v: %q", name, s, got)
			}
		}
	}
	if _, err := db.Exec(t.Context(), `SELECT s FROM observed`); err != nil {
		t.Error(err)
	}
}

func BenchmarkQueryRow(b *testing.B) {
	pool := pgtest.Clone(b)
	for name, c := range map[string]struct {
		db  pg.Pool
		ctx context.Context
	}{
		"plain":  {pool, b.Context()},
		"scoped": {pg.Scoped{Pool: pool}, pg.WithScope(b.Context(), pg.Scope{Tenant: uuid.NewString(), Principal: uuid.NewString()})},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.db.QueryRow(c.ctx, `SELECT 1`).Scan(new(int)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
