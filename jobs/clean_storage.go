package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// CleanStorage purges deleted files and ends reservations of uploads. The next job does what this one did not reach.
type CleanStorage struct{}

// Kind names the job to River.
func (CleanStorage) Kind() string { return "clean_storage" }

// InsertOpts allows one waiting job at most: a second one would find nothing.
func (CleanStorage) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type cleanStorage struct {
	river.WorkerDefaults[CleanStorage]

	d *Deps
}

func (w *cleanStorage) Work(ctx context.Context, _ *river.Job[CleanStorage]) error {
	return w.d.Storage.CleanUp(ctx)
}
