package money

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// SweepPayments processes payments of which the platform received no webhook.
type SweepPayments struct{}

// Kind names the job to River.
func (SweepPayments) Kind() string { return "payment_sweep" }

// InsertOpts allows one waiting or running job: a second would send the same requests.
func (SweepPayments) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ledger.QueueBilling, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type paymentSweep struct {
	river.WorkerDefaults[SweepPayments]

	Deps
}

// sweepWithin is shorter than the time after which River rescues a job, so that no second sweep
// runs at the same time. The next sweep continues where this one ends.
const sweepWithin = riverjob.RescueAfter - 5*time.Second

// Timeout is longer than that of other jobs, because the job waits for the provider.
func (w *paymentSweep) Timeout(*river.Job[SweepPayments]) time.Duration { return sweepWithin }

func (w *paymentSweep) Work(ctx context.Context, _ *river.Job[SweepPayments]) error {
	found, err := w.Payments.Sweep(ctx)
	if found.Events+found.Sessions+found.Again > 0 {
		w.Log.WarnContext(ctx, "missed payments found", "component", "payment", "events", found.Events, "sessions", found.Sessions, "again", found.Again)
	}
	return err
}
