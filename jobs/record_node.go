package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/product/inventory"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// recordNode writes down that a node's reports have stopped or begun again.
type recordNode struct {
	river.WorkerDefaults[reconciler.RecordNode]

	d *Deps
}

func (w *recordNode) Work(ctx context.Context, job *river.Job[reconciler.RecordNode]) error {
	err := finish(ctx, w.d.DB, job, "record", func(tx pgx.Tx) error {
		// Observed again under this transaction: the node may have spoken since.
		silent, known, err := w.d.Observed.Silent(ctx, tx, job.Args.Node)
		if err != nil || !known || silent != (job.Args.Event == plan.WentSilent) {
			return err
		}
		return w.d.Inventory.Silent(ctx, tx, job.Args.Node, silent)
	})
	if err == nil {
		w.d.Hints.Send(inventory.HintSlots)
	}
	return err
}
