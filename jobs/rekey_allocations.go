package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// rekeyAllocations puts allocations again whose login keys differ from the registered keys of their
// user. The new fence makes the loop send the keys to the node.
type rekeyAllocations struct {
	river.WorkerDefaults[keys.RekeyAllocations]

	d *Deps
}

func (w *rekeyAllocations) Work(ctx context.Context, job *river.Job[keys.RekeyAllocations]) error {
	err := finish(ctx, w.d.DB, job, "rekey", func(tx pgx.Tx) error {
		return w.d.Allocations.Rekey(ctx, tx, job.Args.Principal)
	})
	if err == nil {
		w.d.Desired.Hint()
	}
	return err
}
