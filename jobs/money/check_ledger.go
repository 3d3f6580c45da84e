package money

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// CheckLedger examines the books: balances against entries, entries against use
// and payments.
type CheckLedger struct{}

// Kind names the job to River.
func (CheckLedger) Kind() string { return "check_ledger" }

// InsertOpts allows one job at most: two would read the same rows.
func (CheckLedger) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const (
	// It reads every entry there is: a minute for each hundred million.
	examiningWithin = 30 * time.Minute
	// faultsLogged limits the logged faults of one run. The first ones show where the damage
	// begins; a broken disk produces millions.
	faultsLogged = 100
)

type checkLedger struct {
	river.WorkerDefaults[CheckLedger]

	Deps
}

// Timeout is longer than that of jobs that change something.
func (*checkLedger) Timeout(*river.Job[CheckLedger]) time.Duration { return examiningWithin }

// Work changes nothing. A fault is an error of the installation and not of the job: it is logged
// for the operator and counted by a metric.
func (w *checkLedger) Work(ctx context.Context, _ *river.Job[CheckLedger]) error {
	books, err := w.Billing.Examine(ctx)
	if err != nil {
		return err
	}
	faults := books.Faults()
	for _, f := range faults[:min(len(faults), faultsLogged)] {
		w.Log.ErrorContext(ctx, "the ledger is inconsistent", "component", "billing", "fault", f)
	}
	if len(faults) > faultsLogged {
		w.Log.ErrorContext(ctx, "the ledger is inconsistent", "component", "billing", "count", len(faults))
	}
	return nil
}
