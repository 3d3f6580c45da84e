// Package topup contains the workers of automatic top-ups.
package topup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/services"
)

// Find queues a job for each tenant whose balance is below the threshold of its automatic top-up.
type Find struct{}

// Kind names the job to River.
func (Find) Kind() string { return "find_topups" }

// InsertOpts allows one waiting or running job. The next minute queues it again.
func (Find) InsertOpts() river.InsertOpts {
	states := []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}
	return river.InsertOpts{Queue: ledger.QueueBilling, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: states}}
}

// AddWorkers adds the workers of this package.
func AddWorkers(w *river.Workers, s *services.Services) {
	river.AddWorker(w, &find{s: s})
	river.AddWorker(w, &topUp{s: s})
}

type find struct {
	river.WorkerDefaults[Find]

	s *services.Services
}

func (w *find) Work(ctx context.Context, _ *river.Job[Find]) error {
	due, err := w.s.AutoTopups.Due(ctx)
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

	s *services.Services
}

// Work charges the tenant. While the provider is away the job ends without an error, because the next minute
// queues it again and continues the same charge.
func (w *topUp) Work(ctx context.Context, job *river.Job[autotopup.TopUp]) error {
	err := w.s.AutoTopups.Run(ctx, ids.From[ids.Tenant](job.Args.Tenant))
	w.s.Hints.Send(event.Topic)
	if errs.CodeOf(err) == errs.ProviderFailed {
		return nil // it is in the log
	}
	return err
}
