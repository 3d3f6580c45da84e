package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Accrue charges the use of one window. The pass itself is one statement and
// exactly once by its tick row; the job is only its trigger.
type Accrue struct{}

// Kind names the job to River.
func (Accrue) Kind() string { return "accrue" }

// InsertOpts lets every trigger be a job. Were they unique, the pass of a worker
// that was killed would keep all others away until it is rescued, after 90 s; a
// pass beside another one does nothing.
func (Accrue) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBilling, MaxAttempts: 5}
}

type accrue struct {
	river.WorkerDefaults[Accrue]

	d *Deps
}

func (w *accrue) Work(ctx context.Context, job *river.Job[Accrue]) error {
	err := finish(ctx, w.d.DB, job, "accrue", func(tx pgx.Tx) error {
		tick, err := w.d.Metering.Accrue(ctx, tx)
		if err != nil {
			return fmt.Errorf("accruing: %w", err)
		}
		if tick == (metering.Tick{}) {
			return nil // nothing was charged, so no balance has moved
		}
		return w.deplete(ctx, tx, tick)
	})
	if err == nil {
		w.d.Hints.Send(event.Topic)
		w.d.Desired.Hint()
	}
	return err
}

// deplete releases what a tenant can no longer pay for: in the pass that found
// it, so that the overdraft is at most one window's burn.
func (w *accrue) deplete(ctx context.Context, tx pgx.Tx, tick metering.Tick) error {
	tenants, err := w.d.Metering.Tenants(ctx, tx)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	for _, t := range tenants {
		balance, currency, err := w.d.Ledger.Balance(ctx, tx, t)
		if err != nil {
			return err
		}
		if balance > 0 {
			continue
		}
		released, err := w.d.Allocations.Deplete(ctx, tx, t)
		if err != nil {
			return fmt.Errorf("releasing what %s can no longer pay: %w", t, err)
		}
		if len(released) > 0 {
			urn := w.d.Allocations.Naming.Name(t.String(), "", "tenant", t.String()).String()
			ledger.QueueDepleted(b, t, urn, tick.To.Unix(), ledger.DepletedFact{BalanceMinor: balance, Currency: currency, Allocations: released})
		}
		w.d.Log.InfoContext(ctx, "balance depleted", "component", "billing", "tenant_id", t, "released", len(released))
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// every is a schedule whose period policy may change.
type every func() time.Duration

// Next is the next trigger.
func (e every) Next(now time.Time) time.Time { return now.Add(e()) }

// housekeeping is how often what grows is kept in order; every step of it may
// be late by days.
const housekeeping = time.Hour

// periodic triggers are lost with their leader and come again with the next.
func periodic(d *Deps) []*river.PeriodicJob {
	return []*river.PeriodicJob{
		river.NewPeriodicJob(every(d.Window), func() (river.JobArgs, *river.InsertOpts) { return Accrue{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(housekeeping), func() (river.JobArgs, *river.InsertOpts) { return KeepHouse{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(sealing), func() (river.JobArgs, *river.InsertOpts) { return SealAudit{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(sealingLedger), func() (river.JobArgs, *river.InsertOpts) { return SealLedger{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}),
	}
}
