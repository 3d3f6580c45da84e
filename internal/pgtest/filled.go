package pgtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Filled is a database that a package fills once. Each test clones it with its rows, as fast as the
// empty schema.
type Filled struct {
	// Fill writes the rows.
	Fill func(context.Context, *pgxpool.Pool) error

	first sync.Once
	name  string
	err   error
}

// Clone opens a copy of the filled database, and drops it when the test ends.
func (f *Filled) Clone(t testing.TB) *pgxpool.Pool {
	t.Helper()
	in := cluster(t)
	f.first.Do(func() { f.name, f.err = in.filled(context.WithoutCancel(t.Context()), f.Fill) })
	if f.err != nil {
		t.Fatal(f.err)
	}
	return open(t, in, f.name)
}

// filled returns the name of a new database with the rows that fill writes. It closes all connections
// to the database, because PostgreSQL clones no database that is in use.
func (in *instance) filled(ctx context.Context, fill func(context.Context, *pgxpool.Pool) error) (string, error) {
	name, err := in.create(ctx, template)
	if err != nil {
		return "", err
	}
	pool, err := pg.Open(ctx, in.at(name), "test", poolSize)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	if err := fill(ctx, pool); err != nil {
		return "", fmt.Errorf("filling the database: %w", err)
	}
	return name, nil
}
