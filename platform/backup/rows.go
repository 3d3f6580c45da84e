package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
)

var zeroTenant ids.Tenant

const (
	// quietTries is the number of snapshots after which a database counts as one that always writes.
	quietTries = 500
	quietPause = 5 * time.Millisecond
)

// countRows counts the rows of all tables in a snapshot, and returns the position in the WAL of that snapshot. A restore
// that ends before the position has exactly these rows. Without a quiet moment it returns a position and no rows.
func countRows(ctx context.Context, db *pgxpool.Pool) (at lsn.LSN, rows map[string]int64, err error) {
	for range quietTries {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			at, rows, err = countIn(ctx, db, tx)
			return err
		})
		if !errors.Is(err, errBusy) {
			return at, rows, err
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(quietPause):
		}
	}
	return at, nil, nil
}

var errBusy = errors.New("a transaction is writing")

// countIn proves that snapshot and position are the same state. No transaction with an id is in progress in the snapshot,
// none has the lock of its id after the position was read, and none has ended in between: so none committed in between.
func countIn(ctx context.Context, db pg.Queryer, tx pgx.Tx) (at lsn.LSN, rows map[string]int64, err error) {
	for _, sql := range []string{snapshot, patient} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return 0, nil, err
		}
	}
	var xmax, later, position string
	var quiet, free bool
	if err := tx.QueryRow(ctx, selectQuiet).Scan(&xmax, &quiet); err != nil {
		return 0, nil, fmt.Errorf("reading a snapshot: %w", err)
	}
	if err := db.QueryRow(ctx, selectAfter).Scan(&position); err != nil {
		return 0, nil, fmt.Errorf("reading the position in the WAL: %w", err)
	}
	if err := db.QueryRow(ctx, selectFree).Scan(&free); err != nil {
		return 0, nil, fmt.Errorf("reading the locks of transactions: %w", err)
	}
	if err := db.QueryRow(ctx, selectXmax).Scan(&later); err != nil {
		return 0, nil, fmt.Errorf("reading a snapshot: %w", err)
	}
	if at, err = lsn.Parse(position); err != nil {
		return 0, nil, err
	}
	if !quiet || !free || later != xmax {
		return at, nil, errBusy
	}
	rows, err = countTables(ctx, tx)
	return at, rows, err
}

// countTables counts the rows of all tables.
func countTables(ctx context.Context, q pg.Queryer) (map[string]int64, error) {
	found, err := q.Query(ctx, selectTables)
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	tables, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (t pgx.Identifier, err error) {
		t = make(pgx.Identifier, 2)
		err = row.Scan(&t[0], &t[1])
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	rows := make(map[string]int64, len(tables))
	for _, t := range tables {
		var n int64
		if err := q.QueryRow(ctx, "SELECT count(*) FROM "+t.Sanitize()).Scan(&n); err != nil {
			return nil, fmt.Errorf("counting the rows of %s.%s: %w", t[0], t[1], err)
		}
		rows[t[0]+"."+t[1]] = n
	}
	return rows, nil
}
