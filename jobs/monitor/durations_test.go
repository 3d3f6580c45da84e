package monitor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/jobs/monitor"
)

var errBroken = errors.New("broken")

// TestEachResultIsMeasured runs one attempt for each result of a job.
func TestEachResultIsMeasured(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx     context.Context //nolint:containedctx // a case of the table
		attempt int
		work    func(context.Context) error
		want    string
	}{
		"success":          {t.Context(), 1, func(context.Context) error { return nil }, "completed"},
		"first failure":    {t.Context(), 1, func(context.Context) error { return errBroken }, "failed"},
		"last failure":     {t.Context(), 3, func(context.Context) error { return errBroken }, "discarded"},
		"cancellation":     {t.Context(), 3, func(context.Context) error { return river.JobCancel(errBroken) }, "cancelled"},
		"snooze":           {t.Context(), 3, func(context.Context) error { return river.JobSnooze(time.Hour) }, "snoozed"},
		"end of a server":  {stopped, 3, func(ctx context.Context) error { return ctx.Err() }, "interrupted"},
		"panic":            {t.Context(), 1, func(context.Context) error { panic("no") }, "failed"},
		"panic, last":      {t.Context(), 3, func(context.Context) error { panic("no") }, "discarded"},
		"success, stopped": {stopped, 1, func(context.Context) error { return nil }, "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			d := monitor.NewDurations(clock.At(func() time.Time { now = now.Add(time.Second); return now }))
			func() {
				defer func() { _ = recover() }()
				_ = d.Work(c.ctx, &rivertype.JobRow{Kind: "k", Attempt: c.attempt, MaxAttempts: 3}, c.work)
			}()
			if got := results(t, d); len(got) != 1 || got[c.want] != 1 {
				t.Errorf("seconds by result: %v, want 1 of %s", got, c.want)
			}
		})
	}
}

// results returns the sum of the durations by result.
func results(t *testing.T, d *monitor.Durations) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(d)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" {
					sums[l.GetValue()] += m.GetHistogram().GetSampleSum()
				}
			}
		}
	}
	return sums
}
