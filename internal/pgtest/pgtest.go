// Package pgtest gives tests a real PostgreSQL: one private cluster per test
// process, in memory where there is /dev/shm, and a database cloned from the
// migrated template for every test that wants one.
//
// Nothing has to be stopped. The cluster dies with the test process, however
// that ends, and a watcher removes its folder.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// poolSize limits the connections of one test. The cluster allows 400 sessions.
const poolSize = 10

// instance is the process's cluster.
type instance struct {
	// cluster lives as long as the process. Its lock ends with the process, and the next test
	// process deletes a folder without a lock.
	cluster *pgcluster.Cluster
	url     string

	// One connection creates and drops all databases. Each statement waits for a checkpoint in any
	// case, and a pool's background goroutines would be reported as a leak by tests.
	mu    sync.Mutex
	admin *pgx.Conn

	databases atomic.Int64
	shared    func() (*pgxpool.Pool, error)
}

// begun is the process's one cluster: a package's tests have no other place in
// common.
var begun struct {
	once sync.Once
	in   *instance
	err  error
	pipe *os.File // to the watcher; a collected file would be a closed file
}

// cluster starts the process's cluster at the first call.
func cluster(t testing.TB) *instance {
	t.Helper()
	// The first test's end must not end what the others use.
	ctx := context.WithoutCancel(t.Context())
	begun.once.Do(func() { begun.in, begun.err = begin(ctx) })
	if begun.err != nil {
		t.Fatalf("starting PostgreSQL for tests: %v", begun.err)
	}
	return begun.in
}

// URL makes a database with the present schema and returns where it is. It is
// dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return databaseOf(t, cluster(t), template)
}

// databaseOf clones a database and returns the URL of the copy, which is dropped when the test ends.
func databaseOf(t testing.TB, in *instance, from string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	name, err := in.create(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return in.at(name)
}

// Clone opens a database of the test's own.
func Clone(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, cluster(t), template)
}

// Copy opens a copy of a test's database as it is now: a backup of this moment. The connections of the pool are closed for it.
func Copy(t testing.TB, of *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	of.Reset()
	return open(t, cluster(t), of.Config().ConnConfig.Database)
}

func open(t testing.TB, in *instance, from string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(context.WithoutCancel(t.Context()), databaseOf(t, in, from), "test", poolSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close) // before the drop: cleanups run last in, first out
	return pool
}

// Tx begins a transaction on a database that the tests of this process share, and rolls it back at
// the end of the test. It is the cheapest way for tests that need one connection and no commit.
func Tx(t testing.TB) pgx.Tx {
	t.Helper()
	pool, err := cluster(t).shared()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(ctx) }) // committed or broken: the test has reported it
	return tx
}

func (in *instance) create(ctx context.Context, from string) (string, error) {
	name := fmt.Sprintf("test_%d", in.databases.Add(1))
	// file_copy is the faster one where no fsync is due: 9 ms against 40.
	return name, in.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+from+" STRATEGY file_copy")
}

func (in *instance) exec(ctx context.Context, sql string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, err := in.admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// at is the cluster's URL with another database.
func (in *instance) at(database string) string {
	return strings.Replace(in.url, "/postgres?", "/"+database+"?", 1)
}

func (in *instance) openShared(ctx context.Context) (*pgxpool.Pool, error) {
	name, err := in.create(ctx, template)
	if err != nil {
		return nil, err
	}
	return pg.Open(ctx, in.at(name), "test", 4*poolSize)
}
