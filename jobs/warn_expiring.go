package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"
)

// WarnExpiring announces to tenants that allocations are released at the end of their TTL, or because they are idle, and
// releases the idle ones.
type WarnExpiring struct{}

// Kind names the job to River.
func (WarnExpiring) Kind() string { return "warn_expiring" }

// InsertOpts allows one waiting job at most.
func (WarnExpiring) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

type warnExpiring struct {
	river.WorkerDefaults[WarnExpiring]

	d *Deps
}

// Timeout is longer than that of other jobs: it reads what all nodes have reported for hours.
func (*warnExpiring) Timeout(*river.Job[WarnExpiring]) time.Duration { return checkWithin }

func (w *warnExpiring) Work(ctx context.Context, _ *river.Job[WarnExpiring]) error {
	return w.d.Managed.Announce(ctx)
}
