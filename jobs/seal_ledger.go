package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// SealLedger totals and seals the accounts with new entries. The next job seals what this one did
// not reach.
type SealLedger struct{}

// Kind names the job to River.
func (SealLedger) Kind() string { return "seal_ledger" }

// InsertOpts allows one waiting job at most: a second one would find nothing.
func (SealLedger) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// sealingAgain leaves most of the time to a long accrual pass: sealing blocks every posting while
// it waits for the open ones.
const sealingAgain = 30 * time.Second

type sealLedger struct {
	river.WorkerDefaults[SealLedger]

	d *Deps
}

func (w *sealLedger) Work(ctx context.Context, _ *river.Job[SealLedger]) error {
	err := w.d.Ledger.Seal(ctx)
	if ledger.Busy(err) {
		return river.JobSnooze(sealingAgain)
	}
	return err
}
