package money

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/product/slots"
)

// checkRunway compares balances with burn rates. It notifies tenants with a short runway, releases the
// allocations of tenants without a balance, and deletes their files after a grace time. A lost job costs one window: the next
// accrual queues it again.
type checkRunway struct {
	river.WorkerDefaults[ledger.CheckRunway]

	Deps
}

// checkedBatch limits the tenants of one commit. The commit locks their rows for a few
// milliseconds, and only another checkRunway waits for these locks.
const checkedBatch = 200

// Work does not complete its job in a commit of its own. Each step is a transaction that does
// nothing when it is repeated.
func (w *checkRunway) Work(ctx context.Context, job *river.Job[ledger.CheckRunway]) error {
	tenants := []ids.Tenant{{UUID: job.Args.Tenant}}
	if job.Args.Tenant == uuid.Nil {
		var err error
		if tenants, err = w.Billing.Concerned(ctx, w.DB); err != nil {
			return err
		}
	}
	var failed []error // of some tenants; the others are not to wait for them
	for some := range slices.Chunk(tenants, checkedBatch) {
		depleted, err := w.check(ctx, some)
		failed = append(failed, err)
		for _, t := range depleted {
			failed = append(failed, w.deplete(ctx, t))
		}
		failed = append(failed, w.deleteFiles(ctx, some))
		w.Hints.Send(event.Topic)
	}
	return errors.Join(failed...)
}

func (w *checkRunway) check(ctx context.Context, tenants []ids.Tenant) (depleted []ids.Tenant, err error) {
	err = w.step(ctx, func(tx pgx.Tx) (err error) {
		depleted, err = w.Billing.Check(ctx, tx, tenants)
		return err
	})
	if err != nil {
		return nil, err
	}
	return depleted, nil
}

// deplete releases all allocations of one tenant and queues its notice in one commit.
func (w *checkRunway) deplete(ctx context.Context, tenant ids.Tenant) error {
	var released []string
	err := w.step(ctx, func(tx pgx.Tx) (err error) {
		released, err = w.Billing.Deplete(ctx, tx, tenant)
		return err
	})
	if err != nil || len(released) == 0 {
		return err
	}
	w.Log.InfoContext(ctx, "balance depleted", "component", "billing", "tenant_id", tenant, "released", len(released))
	w.Hints.Send(slots.HintSlots)
	w.Desired.Hint()
	return nil
}

// deleteFiles deletes the files of the tenants whose deletion is due, those of each tenant in one commit.
func (w *checkRunway) deleteFiles(ctx context.Context, tenants []ids.Tenant) error {
	due, err := w.Billing.OverdueFiles(ctx, w.DB, tenants)
	for _, tenant := range due {
		deleted := false
		err = errors.Join(err, w.step(ctx, func(tx pgx.Tx) (err error) {
			deleted, err = w.Billing.DeleteFiles(ctx, tx, tenant)
			return err
		}))
		if deleted {
			w.Log.WarnContext(ctx, "files of a tenant without a balance deleted", "component", "billing", "tenant_id", tenant)
		}
	}
	return err
}

func (w *checkRunway) step(ctx context.Context, do func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		err := do(tx)
		failpoint.Hit("runway.check.before_commit")
		return err
	})
	if err == nil {
		failpoint.Hit("runway.check.after_commit")
	}
	return err
}
