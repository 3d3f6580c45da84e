package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// rekeyAllocations declares anew what is opened by other keys than its principal
// has registered. The loop then sees a newer fence, and the host gets the keys.
type rekeyAllocations struct {
	river.WorkerDefaults[identity.RekeyAllocations]

	d *Deps
}

func (w *rekeyAllocations) Work(ctx context.Context, job *river.Job[identity.RekeyAllocations]) error {
	err := finish(ctx, w.d.DB, job, "rekey", func(tx pgx.Tx) error {
		return w.d.Allocations.Rekey(ctx, tx, job.Args.Principal)
	})
	if err == nil {
		w.d.Desired.Hint()
	}
	return err
}
