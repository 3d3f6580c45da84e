package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/reconciler"
)

// releaseAllocation leaves the order to let go in the node's mailbox.
type releaseAllocation struct {
	river.WorkerDefaults[reconciler.ReleaseAllocation]

	d *Deps
}

func (w *releaseAllocation) Work(ctx context.Context, job *river.Job[reconciler.ReleaseAllocation]) error {
	var placed bool
	err := finish(ctx, w.d.DB, job, "release", func(tx pgx.Tx) error {
		order, stands, err := w.order(ctx, tx, job.Args)
		if err != nil || !stands {
			return err
		}
		placed = true
		return overtaken(w.d.Tasks.Put(ctx, tx, order))
	})
	if err == nil && placed {
		w.d.Tasks.Hint(job.Args.Node)
	}
	return err
}

// order is what the host is told. Where nothing is declared the host goes by its
// own journal: the account's name is not known here.
func (w *releaseAllocation) order(ctx context.Context, tx pgx.Tx, args reconciler.ReleaseAllocation) (o nodetask.Order, stands bool, err error) {
	o = nodetask.Order{Node: args.Node, Allocation: args.Allocation, Type: wire.RevokeUser, Fence: args.Fence, Generation: args.Generation}
	params := wire.RevokeUserParams{GPUs: []string{}, Mode: "clear"}
	want, spec, err := lockDeclared(ctx, tx, w.d.Desired, args.Allocation)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		o.Params = params
		// A leak is let go of only while it is one: declared again, a newer plan
		// decides.
		return o, args.Generation == 0, nil
	case err != nil:
		return o, false, err
	case want.Generation != args.Generation || want.Fence != args.Fence || want.Epoch != args.Epoch || !spec.Released:
		return o, false, nil
	}
	params.User, params.UID, params.GPUs = spec.Login, spec.UID, spec.GPUUUIDs
	o.Params, o.SpecHash, o.Slots = params, want.SpecHash, spec.GPUUUIDs
	return o, true, nil
}

// probeNode asks a node for a whole report.
type probeNode struct {
	river.WorkerDefaults[reconciler.ProbeNode]

	d *Deps
}

func (w *probeNode) Work(ctx context.Context, job *river.Job[reconciler.ProbeNode]) error {
	if job.Args.Node == (ids.Node{}) {
		return nil
	}
	err := finish(ctx, w.d.DB, job, "probe", func(tx pgx.Tx) error {
		return w.d.Tasks.Put(ctx, tx, nodetask.Order{Node: job.Args.Node, Type: wire.Probe, Params: wire.ProbeParams{}})
	})
	if err == nil {
		w.d.Tasks.Hint(job.Args.Node)
	}
	return err
}
