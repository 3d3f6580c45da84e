package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// rekeyAllocations puts allocations again whose login keys differ from the registered keys of their
// user. The new fence makes the loop send the keys to the node.
type rekeyAllocations struct {
	river.WorkerDefaults[keys.RekeyAllocations]

	d *Deps
}

func (w *rekeyAllocations) Work(ctx context.Context, job *river.Job[keys.RekeyAllocations]) error {
	err := riverjob.Finish(ctx, w.d.DB, job, "rekey", func(tx pgx.Tx) error {
		return w.d.Allocations.Rekey(ctx, tx, job.Args.Principal)
	})
	if err == nil {
		w.d.Desired.Hint()
	}
	return err
}

// SendAuthorities sends changed SSH authorities to the nodes of active allocations.
type SendAuthorities struct{}

// Kind names the job to River.
func (SendAuthorities) Kind() string { return "send_authorities" }

// InsertOpts allows one waiting job at most.
func (SendAuthorities) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type sendAuthorities struct {
	river.WorkerDefaults[SendAuthorities]

	d *Deps
}

func (w *sendAuthorities) Work(ctx context.Context, _ *river.Job[SendAuthorities]) error {
	hash := allocation.AuthoritiesHash(w.d.UserCA())
	return w.d.sendInBatches(ctx, "SSH authorities", func(tx pgx.Tx, most int) (int, error) { return w.d.Allocations.SendAuthorities(ctx, tx, hash, most) })
}
