// Package restore owns the restores of the database. A restored database does not know what happened after the point
// that it was restored to: nodes run allocations that it has lost, and have released others. While an operator has not
// confirmed a restore, the servers change nothing (Gate), and store what nodes report (Record). The package does not
// compare the domains; product/recovery does.
package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// Restore is one restore of the database.
type Restore struct {
	ID          uuid.UUID       `json:"id"`
	BackupID    string          `json:"backup_id,omitempty"`
	RestoredTo  time.Time       `json:"restored_to"`
	BeganAt     time.Time       `json:"began_at"`
	By          string          `json:"by"`
	ConfirmedAt *time.Time      `json:"confirmed_at"`
	ConfirmedBy string          `json:"confirmed_by,omitempty"`
	Report      json.RawMessage `json:"report,omitempty"`
}

// Point is the request to mark a database as restored.
type Point struct {
	At     time.Time
	Backup string // of GPUaaS; empty for snapshots and dumps
	By     string
	// Replace corrects the point of the restore in progress. Without it, the restore in progress is one that the backup contains.
	Replace bool
}

// Open returns the restore that is not confirmed, or nil.
func Open(ctx context.Context, q pg.Queryer) (*Restore, error) {
	var r Restore
	err := q.QueryRow(ctx, selectOpen).Scan(&r.ID, &r.BackupID, &r.RestoredTo, &r.BeganAt, &r.By, &r.Report)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the usual state
	}
	if err != nil {
		return nil, fmt.Errorf("reading the restore in progress: %w", err)
	}
	return &r, nil
}

// Last returns the restore that was confirmed last, or nil.
func Last(ctx context.Context, q pg.Queryer) (*Restore, error) {
	all, err := pg.List(ctx, q, "the last restore", selectLast, pgx.RowToStructByPos[Restore])
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// Begin marks the database as restored to a point. The servers must be down. It ends all sessions of the database: some of
// them were ended in the lost time. Repeated for the same point, it returns the restore in progress.
func Begin(ctx context.Context, db pg.Pool, p Point) (r Restore, err error) {
	p.At = p.At.Truncate(time.Microsecond) // as the database stores it
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// A server that starts from now on waits for the end of this transaction when it reads the restores. One that has read
		// them before is connected, so that checkServers finds it.
		if _, err := tx.Exec(ctx, lockReaders); err != nil {
			return fmt.Errorf("locking the restores: %w", err)
		}
		if err := checkServers(ctx, tx); err != nil {
			return err
		}
		open, err := Open(ctx, tx)
		if err != nil {
			return err
		}
		if open != nil && open.RestoredTo.Equal(p.At) && open.BackupID == p.Backup {
			r = *open
			return nil
		}
		if p.Replace {
			r, err = replace(ctx, tx, open, p)
			return err
		}
		if err := checkPoint(ctx, tx, p.At, nil); err != nil {
			return err
		}
		r, err = insert(ctx, tx, p)
		return err
	})
	return r, err
}

func insert(ctx context.Context, tx pgx.Tx, p Point) (Restore, error) {
	r, err := pg.One(ctx, tx, "the new restore", insertRestore, pgx.RowToStructByPos[Restore], uuid.Must(uuid.NewV7()), p.Backup, p.At, p.By)
	if err != nil {
		return Restore{}, err
	}
	b := &pgx.Batch{}
	revocation.QueueSessionsBefore(b, r.BeganAt)
	return r, write(ctx, tx, b, r)
}

// replace corrects the point of the restore in progress. Audit rows since its begin are of the restored database.
func replace(ctx context.Context, tx pgx.Tx, open *Restore, p Point) (Restore, error) {
	if open == nil {
		return Restore{}, errs.New(errs.Conflict, "no restore is in progress, so there is no point to replace").Try("repeat it without --replace")
	}
	if err := checkPoint(ctx, tx, p.At, &open.BeganAt); err != nil {
		return Restore{}, err
	}
	r, err := pg.One(ctx, tx, "the corrected restore", replaceOpen, pgx.RowToStructByPos[Restore], open.ID, p.Backup, p.At, p.By)
	if err != nil {
		return Restore{}, err
	}
	return r, write(ctx, tx, &pgx.Batch{}, r)
}

// write sends a batch with the audit row of a begin.
func write(ctx context.Context, tx pgx.Tx, b *pgx.Batch, r Restore) error {
	audit.Queue(b, audit.Entry{By: audit.OnServer("system:operator", "gpuaas restore begin"), Action: "restore.begin", Target: Target(r.ID), After: r})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("marking the database as restored: %w", err)
	}
	return nil
}

// Target names a restore in audit rows.
func Target(id uuid.UUID) string { return "restore/" + id.String() }

// checkPoint rejects a point that cannot be that of this database. began is the begin of a restore whose point is corrected.
func checkPoint(ctx context.Context, tx pgx.Tx, at time.Time, began *time.Time) error {
	var latest time.Time
	if err := tx.QueryRow(ctx, `SELECT coalesce($1, now())`, began).Scan(&latest); err != nil {
		return fmt.Errorf("reading the time: %w", err)
	}
	if at.After(latest) {
		return errs.Invalid("--at", "%s is in the future, or after the begin of the restore", at.UTC().Format(time.RFC3339)).
			Try("give the time that the database was restored to")
	}
	newest, err := audit.Newest(ctx, tx, began)
	if err != nil {
		return err
	}
	if at.Before(newest) {
		return errs.Invalid("--at", "%s is before the newest audit row, of %s: the database was not restored to that time",
			at.UTC().Format(time.RFC3339), newest.UTC().Format(time.RFC3339Nano)).
			Try("give the time that the database was restored to; --replace corrects that of a restore in progress")
	}
	return nil
}

// roles are the names under which servers connect.
var roles = []string{"gpuaas-api", "gpuaas-node", "gpuaas-reconcile", "gpuaas-work", "gpuaas-relay", "gpuaas-terminal"}

// checkServers rejects the begin while a server is connected: it would act on the restored state for another second.
func checkServers(ctx context.Context, tx pgx.Tx) error {
	running, err := pg.List(ctx, tx, "the connected servers", selectServers, pgx.RowTo[string], roles)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return errs.New(errs.Conflict, "servers are connected to the database: %v", running).Try("stop all servers, then repeat it")
	}
	return nil
}
