package monitor

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// Results of one attempt of a job. An interrupted one is no error: its server has stopped.
const (
	completed   = "completed"
	cancelled   = "cancelled"
	snoozed     = "snoozed"
	interrupted = "interrupted"
	failed      = "failed"    // another attempt follows
	discarded   = "discarded" // no further attempt
)

// Durations measures each attempt of each job, as a middleware of River.
type Durations struct {
	river.MiddlewareDefaults
	*prometheus.HistogramVec

	Clock clock.Clock
}

// NewDurations begins at zero.
func NewDurations(c clock.Clock) *Durations {
	return &Durations{Clock: c, HistogramVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gpuaas_job_duration_seconds", Help: "Duration of attempts of jobs, by kind and result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8), // to 16 s
	}, []string{"kind", "result"})}
}

// Work measures one attempt. One that panics is measured, too.
func (d *Durations) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) (err error) {
	began, returned := d.Clock.Now(), false
	defer func() {
		result := resultOf(ctx, job, err)
		if !returned {
			result = exhausted(job)
		}
		d.WithLabelValues(job.Kind, result).Observe(max(d.Clock.Now().Sub(began), time.Duration(0)).Seconds())
	}()
	err = work(ctx)
	returned = true
	return err
}

func resultOf(ctx context.Context, job *rivertype.JobRow, err error) string {
	var cancel *river.JobCancelError
	var snooze *river.JobSnoozeError
	switch {
	case err == nil:
		return completed
	case errors.As(err, &cancel):
		return cancelled
	case errors.As(err, &snooze):
		return snoozed
	case errors.Is(ctx.Err(), context.Canceled):
		return interrupted
	}
	return exhausted(job)
}

func exhausted(job *rivertype.JobRow) string {
	if job.Attempt >= job.MaxAttempts {
		return discarded
	}
	return failed
}
