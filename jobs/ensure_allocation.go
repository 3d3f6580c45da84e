package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/reconciler"
)

// ensureAllocation leaves a signed task in the node's mailbox.
type ensureAllocation struct {
	river.WorkerDefaults[reconciler.EnsureAllocation]

	d *Deps
}

// Work queues the task and completes the job in one transaction. The hint follows the commit: before it, the node would
// find an empty mailbox and wait for the next poll.
func (w *ensureAllocation) Work(ctx context.Context, job *river.Job[reconciler.EnsureAllocation]) error {
	var node ids.Node
	err := riverjob.Finish(ctx, w.d.DB, job, "ensure", func(tx pgx.Tx) error {
		a, err := w.d.Allocations.Lock(ctx, tx, job.Args.Allocation)
		if err != nil {
			return cancelUnknown(err)
		}
		want, spec, err := lockDeclared(ctx, tx, w.d.Desired, job.Args.Allocation)
		if err != nil {
			return cancelUnknown(err)
		}
		// Another generation, fence or epoch means that a newer plan owns this allocation. The job
		// succeeds, because it was superseded and not lost.
		if want.Generation != job.Args.Generation || want.Fence != job.Args.Fence || want.Epoch != job.Args.Epoch || spec.Released {
			return nil
		}
		node = a.Node
		task, err := w.task(ctx, tx, a, want, spec)
		if err == nil && w.d.UserCA != nil {
			err = w.d.Allocations.AuthoritiesSent(ctx, tx, a.ID, allocation.AuthoritiesHash(w.d.UserCA()))
		}
		if err != nil {
			return err
		}
		if err := w.d.Tasks.Put(ctx, tx, task); err != nil {
			return overtaken(err)
		}
		_, err = w.d.Allocations.TaskPlaced(ctx, tx, a)
		return err
	})
	if err == nil && node != (ids.Node{}) {
		w.d.Tasks.Hint(node)
	}
	return err
}

// lockDeclared reads and locks an allocation's desired object.
func lockDeclared(ctx context.Context, tx pgx.Tx, store *revision.Store, id ids.Allocation) (desired.Object, desired.Allocation, error) {
	want, err := store.LockUID(ctx, tx, desired.KindAllocation, ids.Object(id))
	if err != nil {
		return desired.Object{}, desired.Allocation{}, err
	}
	var spec desired.Allocation
	if err := json.Unmarshal(want.Spec, &spec); err != nil {
		return desired.Object{}, desired.Allocation{}, fmt.Errorf("reading declaration of %s: %w", id, err)
	}
	return want, spec, nil
}

// cancelUnknown ends a job whose object has left since the plan was made: there
// is nothing to retry.
func cancelUnknown(err error) error {
	if errs.CodeOf(err) == errs.NotFound {
		return river.JobCancel(err)
	}
	return err
}

// overtaken translates the error of a mailbox with a newer fence: the job succeeds without a task.
func overtaken(err error) error {
	if errs.CodeOf(err) == errs.TaskSuperseded {
		return nil
	}
	return err
}
