package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
)

// WarnExpiring announces to tenants that allocations are released at the end of their TTL.
type WarnExpiring struct{}

// Kind names the job to River.
func (WarnExpiring) Kind() string { return "warn_expiring" }

// InsertOpts allows one waiting job at most.
func (WarnExpiring) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type warnExpiring struct {
	river.WorkerDefaults[WarnExpiring]

	d *Deps
}

func (w *warnExpiring) Work(ctx context.Context, _ *river.Job[WarnExpiring]) error {
	warned, err := w.d.Allocations.WarnExpiring(ctx)
	if warned > 0 {
		w.d.Hints.Send(event.Topic)
	}
	return err
}
