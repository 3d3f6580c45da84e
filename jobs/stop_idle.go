package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// StopIdle announces to tenants that allocations are released because they are idle, and releases those that were idle
// until the announced time.
type StopIdle struct{}

// Kind names the job to River.
func (StopIdle) Kind() string { return "stop_idle" }

// InsertOpts allows one waiting job at most.
func (StopIdle) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type stopIdle struct {
	river.WorkerDefaults[StopIdle]

	d *Deps
}

// Timeout is longer than that of other jobs: it reads what all nodes have reported for hours.
func (*stopIdle) Timeout(*river.Job[StopIdle]) time.Duration { return checkWithin }

func (w *stopIdle) Work(ctx context.Context, _ *river.Job[StopIdle]) error {
	return w.d.Managed.StopIdle(ctx)
}
