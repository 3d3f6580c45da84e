package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Metrics counts the drift that this process has opened and healed. It measures the passes of the loop, and the time
// until an allocation is usable.
type Metrics struct {
	found, mended *prometheus.CounterVec
	passes, ready *prometheus.HistogramVec
}

// NewMetrics begins at zero.
func NewMetrics() *Metrics {
	return &Metrics{
		found:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_drift_detected_total", Help: "Detected drift."}, []string{"kind"}),
		mended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_drift_healed_total", Help: "Resolved drift."}, []string{"kind"}),
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuaas_reconcile_duration_seconds", Help: "Duration of passes of the loop, by the kinds of their objects and the result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // to 8 s
		}, []string{"kind", "result"}),
		ready: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuaas_allocation_ready_seconds", Help: "Time from the request of an allocation until it is active or has failed.",
			Buckets: []float64{1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200}, // 60: the objective allocation-ready
		}, []string{"sku", "result"}),
	}
}

// Describe lists the metrics.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) {
	f.found.Describe(c)
	f.mended.Describe(c)
	f.passes.Describe(c)
	f.ready.Describe(c)
}

// Collect gives them.
func (f *Metrics) Collect(c chan<- prometheus.Metric) {
	f.found.Collect(c)
	f.mended.Collect(c)
	f.passes.Collect(c)
	f.ready.Collect(c)
}

// Results of a pass for the objects of one kind.
const (
	resultUnchanged = "unchanged" // no action
	resultRetry     = "retry"     // the check has deferred actions
	resultChanged   = "changed"
	resultError     = "error" // nothing was committed
)

// results returns the result of a pass for each kind: the last that applies.
func results(due []dueRow, p plan.Plan, held map[int]string) map[desired.Kind]string {
	all := map[desired.Kind]string{}
	for _, d := range due {
		all[d.Kind] = resultUnchanged
	}
	for _, want := range []string{resultRetry, resultChanged} {
		for i, a := range p.Actions {
			if _, deferred := held[i]; deferred == (want == resultRetry) {
				all[a.Kind] = want
			}
		}
	}
	return all
}

func (f *Metrics) passed(results map[desired.Kind]string, took time.Duration, failed bool) {
	if f == nil {
		return
	}
	for kind, result := range results {
		if failed {
			result = resultError
		}
		f.passes.WithLabelValues(string(kind), result).Observe(took.Seconds())
	}
}

// Provisioned measures an allocation that is active or has failed: result is its state.
func (f *Metrics) Provisioned(sku, result string, took time.Duration) {
	if f != nil {
		f.ready.WithLabelValues(sku, result).Observe(took.Seconds())
	}
}

// Moved counts what was committed.
func (f *Metrics) Moved(moves []plan.Drift) {
	if f == nil {
		return
	}
	for _, d := range moves {
		switch d.Move {
		case plan.Opened:
			f.found.WithLabelValues(string(d.Kind)).Inc()
		case plan.Healed:
			f.mended.WithLabelValues(string(d.Kind)).Inc()
		case plan.Changed:
		}
	}
}
