package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
)

type reportForge struct {
	river.WorkerDefaults[forge.ReportForge]

	d *Deps
}

const (
	// A round: three seconds each leave time for the last one to run out of its own.
	reportsAtOnce = 20
	reportWithin  = rescueAfter - 20*time.Second
	// What no answer can be had for is asked again, without a count of attempts.
	unansweredFor = time.Minute
)

// Timeout lets it wait for the forge longer than a transaction may take.
func (w *reportForge) Timeout(*river.Job[forge.ReportForge]) time.Duration { return reportWithin }

func (w *reportForge) Work(ctx context.Context, job *river.Job[forge.ReportForge]) error {
	source := job.Args.Source
	if source == "" {
		return w.end(ctx, job, w.wake)
	}
	f, ok, err := w.forge(ctx, source)
	switch {
	case err != nil:
		w.d.Log.WarnContext(ctx, "forge cannot be notified", "component", "forge", "source", source, "err", err)
		err = w.d.Reports.PutOff(ctx, source, err, unansweredFor)
	case ok:
		err = w.d.Reports.Send(ctx, source, f, reportsAtOnce)
	default: // nobody is to be told; a forge that is declared later finds it
		return w.end(ctx, job, func(context.Context, pgx.Tx) error { return nil })
	}
	if err != nil {
		return err
	}
	return w.end(ctx, job, func(ctx context.Context, tx pgx.Tx) error { return w.again(ctx, tx, source) })
}

func (w *reportForge) forge(ctx context.Context, source string) (f forge.Forge, ok bool, err error) {
	settings, err := w.d.Desired.SourceSettings(ctx, w.d.DB, source)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return nil, false, nil // no longer declared
	case err != nil:
		return nil, false, err
	}
	return forge.Of(ctx, settings, w.d.Development)
}

// end completes the job first, and then looks for more: who wants something while
// this job runs finds it there and adds none, and its row is locked until both are
// done. So either this look sees the wish, or the wish comes with a job.
func (w *reportForge) end(ctx context.Context, job *river.Job[forge.ReportForge], then func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return fmt.Errorf("completing job: %w", err)
		}
		return then(ctx, tx)
	})
}

// again comes back when the first of what is left is due.
func (w *reportForge) again(ctx context.Context, tx pgx.Tx, source string) error {
	untold, err := w.d.Reports.Pending(ctx, tx, source)
	if err != nil {
		return err
	}
	if at, left := untold[source]; left {
		return w.enqueue(ctx, tx, source, at)
	}
	return nil
}

// wake asks again for those of whom no job remains.
func (w *reportForge) wake(ctx context.Context, tx pgx.Tx) error {
	untold, err := w.d.Reports.Pending(ctx, tx, "")
	if err != nil {
		return err
	}
	for source, at := range untold {
		if err := w.enqueue(ctx, tx, source, at); err != nil {
			return err
		}
	}
	return nil
}

func (w *reportForge) enqueue(ctx context.Context, tx pgx.Tx, source string, at time.Time) error {
	_, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, forge.ReportForge{Source: source, At: at.Unix()}, &river.InsertOpts{ScheduledAt: at})
	if err != nil {
		return fmt.Errorf("enqueueing what is left: %w", err)
	}
	return nil
}
