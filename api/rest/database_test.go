package rest_test

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// database is the pool of the services. A test counts its statements, or makes some of them fail as
// they do when PostgreSQL is away.
type database struct {
	pg.Pool

	mu       sync.Mutex
	failing  string // statements that contain this text fail with err
	err      error
	after    int // so many of them succeed first
	watched  string
	matching int // statements that contained watched
	begun    int // transactions
	trips    int // statements and batches outside transactions
}

// fail makes statements that contain a text fail, and none with a nil error.
func (d *database) fail(statements string, after int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing, d.after, d.err = statements, after, err
}

// watch counts statements that contain a text.
func (d *database) watch(statements string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched, d.matching, d.begun, d.trips = statements, 0, 0, 0
}

func (d *database) counts() (matching, begun int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.matching, d.begun
}

// roundTrips returns how many statements and batches were sent since watch.
func (d *database) roundTrips() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trips
}

// send counts the statements of one round trip. It returns the error with which they fail, if they do.
func (d *database) send(statements ...string) error {
	d.mu.Lock()
	d.trips++
	d.mu.Unlock()
	for _, sql := range statements {
		if err := d.see(sql); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) see(sql string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watched != "" && strings.Contains(sql, d.watched) {
		d.matching++
	}
	if d.err == nil || !strings.Contains(sql, d.failing) {
		return nil
	}
	if d.after > 0 {
		d.after--
		return nil
	}
	return d.err
}

func (d *database) Begin(ctx context.Context) (pgx.Tx, error) {
	d.mu.Lock()
	d.begun++
	d.mu.Unlock()
	if err := d.see("BEGIN"); err != nil {
		return nil, err
	}
	return d.Pool.Begin(ctx)
}

func (d *database) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := d.send(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return d.Pool.Exec(ctx, sql, args...)
}

func (d *database) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := d.send(sql); err != nil {
		return nil, err
	}
	return d.Pool.Query(ctx, sql, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

func (d *database) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := d.send(sql); err != nil {
		return failedRow{err}
	}
	return d.Pool.QueryRow(ctx, sql, args...)
}

func (d *database) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	statements := make([]string, b.Len())
	for i, q := range b.QueuedQueries {
		statements[i] = q.SQL
	}
	if err := d.send(statements...); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return d.Pool.SendBatch(ctx, b)
}
