package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// PlaceQueued places queued allocations on slots that became free.
type PlaceQueued struct{}

// Kind names the job to River.
func (PlaceQueued) Kind() string { return "place_queued" }

// InsertOpts makes the job not unique. The job of a killed worker counts as running until River
// rescues it, and a unique job would place nothing in the meantime. Two concurrent jobs share the
// queue by row locks.
func (PlaceQueued) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 1}
}

type placeQueued struct {
	river.WorkerDefaults[PlaceQueued]

	d *Deps
}

func (w *placeQueued) Work(ctx context.Context, _ *river.Job[PlaceQueued]) error {
	placed, err := w.d.Allocations.PlaceQueued(ctx, rekeyed)
	if placed > 0 {
		w.d.Hints.Send(event.Topic)
	}
	return err
}

// rekeyed queues a check of the login keys after this commit, because a concurrent transaction may
// be adding or deleting a key.
func rekeyed(ctx context.Context, tx pgx.Tx, a allocation.Allocation) error {
	_, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, keys.RekeyAllocations{Principal: a.User.UUID}, nil)
	if err != nil {
		return fmt.Errorf("having the keys of %s read again: %w", a.ID, err)
	}
	return nil
}
