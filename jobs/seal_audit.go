package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// SealAudit seals the audit rows of committed transactions. Rows that were not sealed in time,
// because of a restart or without a worker, are sealed by the next job.
type SealAudit struct{}

// Kind names the job to River.
func (SealAudit) Kind() string { return "seal_audit" }

// InsertOpts allows one waiting job at most: a second one would find nothing.
func (SealAudit) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type sealAudit struct {
	river.WorkerDefaults[SealAudit]

	d *Deps
}

func (w *sealAudit) Work(ctx context.Context, _ *river.Job[SealAudit]) error {
	return w.d.Audit.Seal(ctx)
}
