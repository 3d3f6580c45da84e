package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
)

// releaseAllocation queues the release task in the node's mailbox.
type releaseAllocation struct {
	river.WorkerDefaults[reconciler.ReleaseAllocation]

	d *Deps
}

// Work queues the release. A leak has no desired object and therefore no fence, so it gets one above all known ones.
func (w *releaseAllocation) Work(ctx context.Context, job *river.Job[reconciler.ReleaseAllocation]) error {
	var placed bool
	err := riverjob.Finish(ctx, w.d.DB, job, "release", func(tx pgx.Tx) error {
		task, current, err := w.task(ctx, tx, job.Args)
		if err != nil || !current {
			return err
		}
		placed = true
		if task.Generation == 0 {
			return w.d.Tasks.PutAbove(ctx, tx, task)
		}
		return overtaken(w.d.Tasks.Put(ctx, tx, task))
	})
	if err == nil && placed {
		w.d.Tasks.Hint(job.Args.Node)
	}
	return err
}

// task returns the task for the node: from the desired object or, if it is deleted, from the
// stored rows.
func (w *releaseAllocation) task(ctx context.Context, tx pgx.Tx, args reconciler.ReleaseAllocation) (o nodetask.Task, current bool, err error) {
	a, err := w.d.Allocations.Lock(ctx, tx, args.Allocation)
	if err != nil {
		return o, false, cancelUnknown(err) // a node rejects a task without an account name
	}
	o = nodetask.Task{Node: args.Node, Allocation: a.ID, Type: protocol.RevokeUser, Fence: args.Fence, Generation: args.Generation, Trace: a.Trace}
	params := protocol.RevokeUserParams{User: a.Login, UID: a.HostUID, Mode: "clear"}
	want, spec, err := lockDeclared(ctx, tx, w.d.Desired, a.ID)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		// A leak is released only while it is one. If the object exists again, a newer plan
		// decides.
		if current = args.Generation == 0; current {
			params.GPUs, err = w.d.NodeHealth.GPUsOf(ctx, tx, a.ID)
		} else {
			err = nil
		}
	case err != nil:
		return o, false, err
	default:
		current = want.Generation == args.Generation && want.Fence == args.Fence && want.Epoch == args.Epoch && spec.Released
		params.GPUs, o.SpecHash = spec.GPUUUIDs, want.SpecHash
	}
	o.Params, o.Slots = params, params.GPUs
	return o, current, err
}

// probeNode requests a complete report from a node.
type probeNode struct {
	river.WorkerDefaults[reconciler.ProbeNode]

	d *Deps
}

func (w *probeNode) Work(ctx context.Context, job *river.Job[reconciler.ProbeNode]) error {
	if job.Args.Node == (ids.Node{}) {
		return nil
	}
	err := riverjob.Finish(ctx, w.d.DB, job, "probe", func(tx pgx.Tx) error {
		return w.d.Tasks.Put(ctx, tx, nodetask.Task{Node: job.Args.Node, Type: protocol.Probe, Params: protocol.ProbeParams{}})
	})
	if err == nil {
		w.d.Tasks.Hint(job.Args.Node)
	}
	return err
}

// resetGPU queues the reset of a GPU in the mailbox of its node.
type resetGPU struct {
	river.WorkerDefaults[fleet.ResetGPU]

	d *Deps
}

// resetAgain is the delay of a reset while the node has another one to do. A mailbox has one task of a type.
const resetAgain = 2 * time.Second

func (w *resetGPU) Work(ctx context.Context, job *river.Job[fleet.ResetGPU]) error {
	err := riverjob.Finish(ctx, w.d.DB, job, "reset", func(tx pgx.Tx) error {
		queued, err := w.d.Tasks.PutNext(ctx, tx, nodetask.Task{
			Node: job.Args.Node, Type: protocol.GPUReset, Slots: []string{job.Args.GPU}, Params: protocol.GPUResetParams{GPU: job.Args.GPU, ExpectIdle: true},
		})
		if err == nil && !queued {
			err = river.JobSnooze(resetAgain)
		}
		return err
	})
	if err == nil {
		w.d.Tasks.Hint(job.Args.Node)
	}
	return err
}
