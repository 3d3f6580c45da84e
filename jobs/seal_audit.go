package jobs

import (
	"context"

	"github.com/riverqueue/river"
)

// SealAudit seals the audit rows of transactions that are over. Whatever was not
// sealed in time, for a restart or for hours without a worker, the next one takes.
type SealAudit struct{}

// Kind names the job to River.
func (SealAudit) Kind() string { return "seal_audit" }

// InsertOpts keeps one waiting at most: a second one would find nothing.
func (SealAudit) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

type sealAudit struct {
	river.WorkerDefaults[SealAudit]

	d *Deps
}

func (w *sealAudit) Work(ctx context.Context, _ *river.Job[SealAudit]) error {
	return w.d.Audit.Seal(ctx)
}
