package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// CheckHealth evaluates nodes again whose health may change without a report: an override has
// ended, or an operator has cleared the breaker.
type CheckHealth struct{}

// Kind names the job to River.
func (CheckHealth) Kind() string { return "check_health" }

// InsertOpts allows one waiting job at most.
func (CheckHealth) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const (
	illAtOnce = 500
)

type checkHealth struct {
	river.WorkerDefaults[CheckHealth]

	d *Deps
}

// Timeout is for a large fleet, one small transaction a node.
func (w *checkHealth) Timeout(*river.Job[CheckHealth]) time.Duration { return checkWithin }

func (w *checkHealth) Work(ctx context.Context, _ *river.Job[CheckHealth]) error {
	for after := (ids.Node{}); ; {
		some, err := w.d.NodeHealth.NeedRecheck(ctx, after, illAtOnce)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, id := range some {
			err := pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) error { return w.d.NodeHealth.Recheck(ctx, tx, id) })
			if err != nil {
				return fmt.Errorf("checking health of %s: %w", id, err)
			}
		}
		after = some[len(some)-1]
	}
}
