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
	"github.com/gpuaas/gpuaas/internal/riverjob"
)

type reportForge struct {
	river.WorkerDefaults[forge.ReportForge]

	d *Deps
}

const (
	// A round: three seconds each leave time for the last one to run out of its own.
	reportsAtOnce = 20
	reportWithin  = riverjob.RescueAfter - 20*time.Second
	// unansweredFor is the pause after an error without a response. Such an error does not count as
	// an attempt.
	unansweredFor = time.Minute
)

// Timeout is longer than that of other jobs, because the job waits for the forge.
func (w *reportForge) Timeout(*river.Job[forge.ReportForge]) time.Duration { return reportWithin }

func (w *reportForge) Work(ctx context.Context, job *river.Job[forge.ReportForge]) error {
	source := job.Args.Source
	if source == "" {
		return w.end(ctx, job, w.queueReports)
	}
	f, ok, err := w.forge(ctx, source)
	switch {
	case err != nil:
		w.d.Log.WarnContext(ctx, "forge cannot be notified", "component", "forge", "source", source, "err", err)
		err = w.d.Reports.PutOff(ctx, source, err, unansweredFor)
	case ok:
		err = w.d.Reports.Send(ctx, source, f, reportsAtOnce)
	default: // the source has no forge; one that is added later finds the report
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
	return forge.Of(ctx, settings, w.d.Credentials, w.d.Development)
}

// end completes the job first and then reads the pending reports. A transaction that stores a
// report while this job runs finds its row, adds no second job, and waits for the row's lock. So
// either this read finds the report, or the report is stored with a job of its own.
func (w *reportForge) end(ctx context.Context, job *river.Job[forge.ReportForge], then func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return fmt.Errorf("completing job: %w", err)
		}
		return then(ctx, tx)
	})
}

// again queues a job for the time of the next pending report.
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

// queueReports queues jobs for sources with pending reports and no job.
func (w *reportForge) queueReports(ctx context.Context, tx pgx.Tx) error {
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
