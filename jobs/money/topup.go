package money

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
)

// FindTopUps queues a job for each tenant whose balance is below the threshold of its automatic top-up.
type FindTopUps struct{}

// Kind names the job to River.
func (FindTopUps) Kind() string { return "find_topups" }

// InsertOpts allows one waiting or running job. The next minute queues it again.
func (FindTopUps) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ledger.QueueBilling, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type findTopUps struct {
	river.WorkerDefaults[FindTopUps]

	Deps
}

func (w *findTopUps) Work(ctx context.Context, _ *river.Job[FindTopUps]) error {
	due, err := w.AutoTopups.Due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	all := make([]river.InsertManyParams, len(due))
	for i, tenant := range due {
		all[i] = river.InsertManyParams{Args: autotopup.TopUp{Tenant: tenant.UUID}}
	}
	if _, err := river.ClientFromContext[pgx.Tx](ctx).InsertMany(ctx, all); err != nil {
		return fmt.Errorf("queueing automatic top-ups: %w", err)
	}
	return nil
}

type topUp struct {
	river.WorkerDefaults[autotopup.TopUp]

	Deps
}

// Work charges the tenant. While the provider is away the job ends without an error, because the next minute
// queues it again and continues the same charge.
func (w *topUp) Work(ctx context.Context, job *river.Job[autotopup.TopUp]) error {
	err := w.AutoTopups.Run(ctx, ids.From[ids.Tenant](job.Args.Tenant))
	w.Hints.Send(event.Topic)
	if errs.CodeOf(err) == errs.ProviderFailed {
		return nil // it is in the log
	}
	return err
}
