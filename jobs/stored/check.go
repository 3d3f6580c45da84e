// Package stored contains the workers that compare the object store with the files and uploads.
package stored

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/product/storage/check"
)

// CheckStorage compares a slice of the object store with the files. The next job continues.
type CheckStorage struct{}

// Kind names the job to River.
func (CheckStorage) Kind() string { return "check_storage" }

// InsertOpts allows one waiting job at most: a second one would compare the same slice.
func (CheckStorage) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// checkStorageWithin is enough for a list of an S3 provider and for the bytes of one file.
const checkStorageWithin = 5 * time.Minute

type checkStorage struct {
	river.WorkerDefaults[CheckStorage]

	check *check.Service
}

// AddWorkers adds the workers of this package.
func AddWorkers(w *river.Workers, s *check.Service) {
	river.AddWorker(w, &checkStorage{check: s})
	river.AddWorker(w, &abortUploads{check: s})
}

// Timeout is longer than that of other jobs, because the job reads from the object store.
func (*checkStorage) Timeout(*river.Job[CheckStorage]) time.Duration { return checkStorageWithin }

func (w *checkStorage) Work(ctx context.Context, _ *river.Job[CheckStorage]) error {
	return w.check.Slice(ctx)
}

// AbortUploads aborts the uploads in parts that only the object store knows, because the process that began them was killed.
type AbortUploads struct{}

// Kind names the job to River.
func (AbortUploads) Kind() string { return "abort_storage_uploads" }

// InsertOpts allows one waiting job at most: a second one would find nothing.
func (AbortUploads) InsertOpts() river.InsertOpts { return CheckStorage{}.InsertOpts() }

type abortUploads struct {
	river.WorkerDefaults[AbortUploads]

	check *check.Service
}

// Timeout is that of checkStorage.
func (*abortUploads) Timeout(*river.Job[AbortUploads]) time.Duration { return checkStorageWithin }

func (w *abortUploads) Work(ctx context.Context, _ *river.Job[AbortUploads]) error {
	return w.check.AbortForgotten(ctx)
}
