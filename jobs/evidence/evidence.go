// Package evidence contains the workers that collect the records of changes for evidence bundles. They read each table through
// the service of its owner. platform/evidence signs and stores the bundle.
package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/services"
)

// Deps contains what the workers read.
type Deps struct {
	*services.Services

	Tasks *nodetask.Store
}

// AddWorkers adds the workers of this package.
func AddWorkers(w *river.Workers, d Deps) {
	river.AddWorker(w, &buildEvidence{d: d})
	river.AddWorker(w, &findEvidence{d: d})
}

const (
	// buildWithin is shorter than the time after which River starts the job of a killed worker again.
	buildWithin = 60 * time.Second
	// outagePause is the time between two attempts while the object store is not available.
	outagePause = 5 * time.Minute
	// mostDrafts is more than the servers that may append to the chain at once.
	mostDrafts = 20
)

type buildEvidence struct {
	river.WorkerDefaults[evidence.BuildEvidence]

	d Deps
	// signing lets one job of the process append to the chain at a time. Only another server then appends before it.
	signing sync.Mutex
}

// Timeout is longer than that of other jobs, because the job stores a file in the object store.
func (*buildEvidence) Timeout(*river.Job[evidence.BuildEvidence]) time.Duration { return buildWithin }

// Work builds one bundle. A failure is recorded with its reason. The row bounds the attempts, because a worker that is killed
// records none.
func (w *buildEvidence) Work(ctx context.Context, job *river.Job[evidence.BuildEvidence]) error {
	r, err := w.d.Evidence.Begin(ctx, job.Args.Bundle)
	if errs.CodeOf(err) == errs.NotFound {
		return river.JobCancel(err) // its days have passed
	}
	if err != nil || r.Status != evidence.StatusPending {
		return err
	}
	if r.Attempts > evidence.MaxAttempts {
		err = fmt.Errorf("the process has ended in an attempt to build %s", r.About)
	} else {
		err = w.build(ctx, job, r)
	}
	if err == nil || ctx.Err() != nil { // a server that stops has not failed
		return err
	}
	failed, recorded := w.d.Evidence.Fail(ctx, r.ID, err)
	switch {
	case recorded != nil:
		return errors.Join(err, recorded)
	case failed.Status == evidence.StatusFailed:
		return river.JobCancel(err)
	case errs.CodeOf(err) == errs.Unavailable:
		return river.JobSnooze(outagePause)
	}
	return err
}

func (w *buildEvidence) build(ctx context.Context, job *river.Job[evidence.BuildEvidence], r evidence.Record) error {
	at := w.d.Clock.Now().Truncate(time.Microsecond)
	found, err := w.d.collect(ctx, r)
	if err != nil {
		return fmt.Errorf("collecting evidence of %s: %w", r.About, err)
	}
	parts, err := found.list()
	if err != nil {
		return err
	}
	w.signing.Lock()
	defer w.signing.Unlock()
	for range mostDrafts {
		draft, err := w.d.Evidence.Draft(ctx, r, parts, at)
		if err != nil {
			return err
		}
		err = riverjob.Finish(ctx, w.d.DB, job, "evidence", func(tx pgx.Tx) error { return w.d.Evidence.Append(ctx, tx, draft) })
		if !errors.Is(err, evidence.ErrMoved) {
			return err
		}
		if err := w.d.Evidence.Discard(ctx, draft); err != nil {
			return fmt.Errorf("deleting a draft of evidence: %w", err)
		}
	}
	return evidence.ErrMoved
}

func (d Deps) collect(ctx context.Context, r evidence.Record) (*records, error) {
	switch r.Kind {
	case bundle.Allocation:
		return d.allocation(ctx, r)
	case bundle.Revision:
		return d.revision(ctx, r)
	case bundle.Plan:
		return d.plan(ctx, r)
	case bundle.KeyRotation:
		return d.keyRotation(ctx, r)
	}
	return nil, fmt.Errorf("kind %q is not known", r.Kind)
}
