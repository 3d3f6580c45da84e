package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"
)

// SweepPayments looks for what the payment provider told and nobody heard.
type SweepPayments struct{}

// Kind names the job to River.
func (SweepPayments) Kind() string { return "payment_sweep" }

// InsertOpts keeps one waiting or at work: a second would ask the same.
func (SweepPayments) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBilling, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

type paymentSweep struct {
	river.WorkerDefaults[SweepPayments]

	d *Deps
}

// sweepWithin is below the time after which a job is taken for lost, so that no
// second sweep begins beside it. What it does not reach, the next one does.
const sweepWithin = rescueAfter - 5*time.Second

// Timeout lets it wait for the provider longer than a transaction may take.
func (w *paymentSweep) Timeout(*river.Job[SweepPayments]) time.Duration { return sweepWithin }

func (w *paymentSweep) Work(ctx context.Context, _ *river.Job[SweepPayments]) error {
	found, err := w.d.Payments.Sweep(ctx)
	if found.Events+found.Sessions+found.Again > 0 {
		w.d.Log.WarnContext(ctx, "missed payments found", "component", "payment", "events", found.Events, "sessions", found.Sessions, "again", found.Again)
	}
	return err
}
