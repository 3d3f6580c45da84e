package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// PlaceQueued gives requests that wait what has come free meanwhile.
type PlaceQueued struct{}

// Kind names the job to River.
func (PlaceQueued) Kind() string { return "place_queued" }

// InsertOpts leaves it not unique: one whose worker was killed counts as running
// until it is rescued, and nobody would be placed meanwhile. Two at once share the
// queue by its row locks.
func (PlaceQueued) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 1}
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

// rekeyed has the keys of a placed one read again behind its commit: somebody may
// be registering or deleting one just now.
func rekeyed(ctx context.Context, tx pgx.Tx, a allocation.Allocation) error {
	_, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, identity.RekeyAllocations{Principal: a.User.UUID}, nil)
	if err != nil {
		return fmt.Errorf("having the keys of %s read again: %w", a.ID, err)
	}
	return nil
}
