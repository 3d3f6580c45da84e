package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// recordNode records that a node's reports have stopped or resumed, and the progress of a drain.
type recordNode struct {
	river.WorkerDefaults[reconciler.RecordNode]

	d *Deps
}

func (w *recordNode) Work(ctx context.Context, job *river.Job[reconciler.RecordNode]) error {
	err := riverjob.Finish(ctx, w.d.DB, job, "record", func(tx pgx.Tx) error { return w.record(ctx, tx, job.Args) })
	if err == nil {
		w.d.Hints.Send(slots.HintSlots)
		w.d.Hints.Send(event.Topic)
		w.d.Desired.Hint()
	}
	return err
}

func (w *recordNode) record(ctx context.Context, tx pgx.Tx, args reconciler.RecordNode) error {
	switch args.Event { //nolint:exhaustive // the others are of allocations
	case plan.DrainStarted:
		return w.d.NodeHealth.DrainStarted(ctx, tx, args.Node)
	case plan.DrainCompleted:
		return w.d.NodeHealth.Drained(ctx, tx, args.Node)
	case plan.DrainCancelled:
		return w.d.NodeHealth.DrainCancelled(ctx, tx, args.Node)
	case plan.HoldExpired:
		return w.d.NodeHealth.EndExpiredHolds(ctx, tx, args.Node)
	}
	// Observed again under this transaction: the node may have spoken since.
	silent, known, err := w.d.Observed.IsStale(ctx, tx, args.Node)
	if err != nil || !known || silent != (args.Event == plan.ReportsStale) {
		return err
	}
	return w.d.NodeHealth.Silent(ctx, tx, args.Node, silent)
}
