package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// recordAllocation passes an observed trigger to product/allocation after it has checked, with the
// rows locked, that the observation is still the last one.
type recordAllocation struct {
	river.WorkerDefaults[reconciler.RecordAllocation]

	d *Deps
}

// Work locks the allocation before its desired object, as every worker does. It reads the observed state only then, so
// that a newer report counts instead of the one that the planner has read.
func (w *recordAllocation) Work(ctx context.Context, job *river.Job[reconciler.RecordAllocation]) error {
	var provisioned allocation.Allocation
	err := riverjob.Finish(ctx, w.d.DB, job, "record", func(tx pgx.Tx) error {
		a, err := w.d.Allocations.Lock(ctx, tx, job.Args.Allocation)
		if err != nil {
			return cancelUnknown(err)
		}
		want, _, err := lockDeclared(ctx, tx, w.d.Desired, a.ID)
		if err != nil {
			return cancelUnknown(err)
		}
		if want.Generation != job.Args.Generation || want.Fence != job.Args.Fence {
			return nil // a newer plan exists and will be executed
		}
		seen, err := w.d.Observed.AllocationIn(ctx, tx, a.ID, a.Node)
		if err != nil && errs.CodeOf(err) != errs.NotFound {
			return err
		}
		if err := w.record(ctx, tx, job.Args, a, want, seen); err != nil || a.State != allocation.Requested && a.State != allocation.Provisioning {
			return err
		}
		provisioned, err = w.d.Allocations.Lock(ctx, tx, a.ID)
		return err
	})
	if err == nil {
		if provisioned.State == allocation.Active || provisioned.State == allocation.Failed {
			w.d.Metrics.Provisioned(provisioned.SKU, string(provisioned.State), w.d.Clock.Now().Sub(provisioned.CreatedAt))
		}
		w.d.Hints.Send(event.Topic)
		w.d.Hints.Send(slots.HintSlots)
		w.d.Desired.Hint()
	}
	return err
}

// record checks the trigger again. A trigger that no longer applies has no effect, and the next plan decides.
func (w *recordAllocation) record(ctx context.Context, tx pgx.Tx, args reconciler.RecordAllocation, a allocation.Allocation, want desired.Object, seen observed.Allocation) error {
	ready := isReady(a, seen, want)
	gone := seen.Proven && seen.Phase == protocol.Gone && seen.Fence >= want.Fence && want.DeletedAt != nil
	switch args.Event {
	case plan.NodeReady:
		if !ready {
			return nil
		}
		return w.d.Allocations.NodeReady(ctx, tx, a, observation(seen))
	case plan.CleanupProved:
		if !gone {
			return nil
		}
		var proof protocol.Proof
		if err := json.Unmarshal(seen.Proof, &proof); err != nil {
			return fmt.Errorf("reading proof of %s: %w", a.ID, err)
		}
		return w.d.Allocations.SlotsGone(ctx, tx, a, proof)
	case plan.Exhausted:
		if ready || gone {
			return nil // it became ready at the last moment, and the next plan records it
		}
		failures := failuresAt(want.Fence, seen)
		return w.d.Allocations.Exhaust(ctx, tx, a, failures, why(args, failures, seen))
	case plan.Expired:
		return w.d.Allocations.Expire(ctx, tx, a)
	case plan.EvictionScheduled, plan.EvictionCancelled, plan.EvictionDue:
		leave, leaves, err := w.d.NodeHealth.Eviction(ctx, tx, a.ID)
		if err != nil {
			return err
		}
		return w.leave(ctx, tx, args.Event, a, leave, leaves)
	case plan.ReportsStale, plan.ReportsResumed, plan.DrainStarted, plan.DrainCompleted, plan.DrainCancelled, plan.HoldExpired:
	}
	return fmt.Errorf("allocation %s: no such event as %q", a.ID, args.Event)
}

// leave records the eviction that the drain of its node means for an allocation.
func (w *recordAllocation) leave(ctx context.Context, tx pgx.Tx, e plan.Trigger, a allocation.Allocation, leave fleet.Eviction, leaves bool) error {
	switch {
	case !leaves:
		return w.d.Allocations.CancelEviction(ctx, tx, a)
	case e == plan.EvictionDue:
		return w.d.Allocations.Evict(ctx, tx, a, allocation.Eviction(leave))
	default:
		return w.d.Allocations.ScheduleEviction(ctx, tx, a, allocation.Eviction(leave))
	}
}

// observation converts an observed state to the values that metering stores.
func observation(seen observed.Allocation) metering.Observation {
	return metering.Observation{
		Node: seen.Node, Fence: seen.Fence, Generation: seen.Generation,
		Boot: seen.Boot, Sequence: seen.Sequence, ObservedAt: seen.ReportedAt.UTC(), Origin: seen.Origin,
	}
}

// failuresAt excludes the failures of superseded tasks.
func failuresAt(fence int64, seen observed.Allocation) int {
	if seen.FailedFence != fence {
		return 0
	}
	return seen.Failures
}

// why returns the reason for the user: the plan's reason and the node's message.
func why(args reconciler.RecordAllocation, failures int, seen observed.Allocation) string {
	if failures == 0 || seen.Message == "" {
		return args.Reason
	}
	return args.Reason + ": " + seen.Message
}

// concludeAllocation ends an allocation whose last slot operators have freed. The API cannot delete the
// desired object.
type concludeAllocation struct {
	river.WorkerDefaults[manage.ConcludeAllocation]

	d *Deps
}

func (w *concludeAllocation) Work(ctx context.Context, job *river.Job[manage.ConcludeAllocation]) error {
	err := riverjob.Finish(ctx, w.d.DB, job, "conclude", func(tx pgx.Tx) error {
		a, err := w.d.Allocations.Lock(ctx, tx, job.Args.Allocation)
		if err != nil {
			return cancelUnknown(err)
		}
		return w.d.Allocations.SlotsInspected(ctx, tx, a)
	})
	if err == nil {
		w.d.Hints.Send(event.Topic)
		w.d.Hints.Send(slots.HintSlots)
	}
	return err
}

// creditFault credits the charges since a confirmed fault report.
type creditFault struct {
	river.WorkerDefaults[manage.CreditFault]

	d *Deps
}

func (w *creditFault) Work(ctx context.Context, job *river.Job[manage.CreditFault]) error {
	err := riverjob.Finish(ctx, w.d.DB, job, "credit", func(tx pgx.Tx) error {
		return cancelUnknown(w.d.Managed.CreditConfirmed(ctx, tx, job.Args.Report))
	})
	if err == nil {
		w.d.Hints.Send(event.Topic)
	}
	return err
}
