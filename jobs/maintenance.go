package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs/retention"
)

// Maintenance creates the partitions of the next months, and removes what is older than its retention.
type Maintenance struct{}

// Kind names the job to River.
func (Maintenance) Kind() string { return "maintenance" }

// InsertOpts allows one waiting job at most.
func (Maintenance) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type maintenance struct {
	river.WorkerDefaults[Maintenance]

	d *Deps
}

// exportWithin is enough for a month of a hundred million audit rows.
const exportWithin = 30 * time.Minute

// Timeout is longer than that of other jobs: a month of audit rows is written to a file.
func (*maintenance) Timeout(*river.Job[Maintenance]) time.Duration { return exportWithin }

func (w *maintenance) Work(ctx context.Context, _ *river.Job[Maintenance]) error {
	return retention.Run(ctx, w.d.Services, w.d.Log)
}
