package jobs

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Maintenance creates the partitions of the next months and deletes old idempotency keys.
type Maintenance struct{}

// Kind names the job to River.
func (Maintenance) Kind() string { return "maintenance" }

// InsertOpts allows one waiting job at most.
func (Maintenance) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

type maintenance struct {
	river.WorkerDefaults[Maintenance]

	d *Deps
}

// monthsAhead leaves a quarter to notice that this job has stopped.
const monthsAhead = 3

func (w *maintenance) Work(ctx context.Context, _ *river.Job[Maintenance]) error {
	if err := MakePartitions(ctx, w.d.DB); err != nil {
		return err
	}
	for _, forget := range []func(context.Context, pg.Queryer, int) (int64, error){w.d.Allocations.Identity.ForgetReplies, signin.ForgetRevoked, allocation.ForgetCertificates, observed.ForgetReadings} {
		for more := true; more; {
			n, err := forget(ctx, w.d.DB, deleteBatch)
			if err != nil {
				return err
			}
			more = n == deleteBatch
		}
	}
	return nil
}

// deleteBatch limits the rows of one statement, so that requests that store rows wait only briefly.
const deleteBatch = 5000

// MakePartitions makes those of the months ahead. A server also does it before it
// serves, since it may have been away for longer than they reach.
func MakePartitions(ctx context.Context, q pg.Queryer) error {
	if _, err := q.Exec(ctx, `SELECT make_partitions($1)`, monthsAhead); err != nil {
		return fmt.Errorf("making partitions: %w", err)
	}
	return nil
}
