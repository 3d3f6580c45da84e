package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Metrics counts the drift that this process has opened and healed.
type Metrics struct{ found, mended *prometheus.CounterVec }

// NewMetrics begins at zero.
func NewMetrics() *Metrics {
	return &Metrics{
		found:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_drift_detected_total", Help: "Detected drift."}, []string{"kind"}),
		mended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_drift_healed_total", Help: "Resolved drift."}, []string{"kind"}),
	}
}

// Describe lists the metrics.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) {
	f.found.Describe(c)
	f.mended.Describe(c)
}

// Collect gives them.
func (f *Metrics) Collect(c chan<- prometheus.Metric) {
	f.found.Collect(c)
	f.mended.Collect(c)
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
