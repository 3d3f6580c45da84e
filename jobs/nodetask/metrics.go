package nodetask

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/protocol"
)

// Metrics measure tasks: the time until the node receives one, the time until it ends, and the
// errors.
type Metrics struct {
	dispatch, duration *prometheus.HistogramVec
	failures           *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// Timeout is the reason of a task that missed its deadline. All other reasons are error codes of
// nodes.
const Timeout = "timeout"

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	// The buckets reach from a waiting poll to one that returns after a minute, and from a probe to
	// a scrub of all GPUs.
	quick, long := prometheus.ExponentialBuckets(0.01, 3, 9), prometheus.ExponentialBuckets(0.1, 3, 9)
	return &Metrics{
		dispatch: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gpuaas_node_task_dispatch_seconds", Help: "Time from the creation of a task to its delivery.", Buckets: quick}, []string{"type"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gpuaas_node_task_duration_seconds", Help: "Time from the creation of a task to its result.", Buckets: long}, []string{"type"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_node_task_failures_total", Help: "Node tasks that failed."}, []string{"type", "reason"}),
	}
}

func (f *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{f.dispatch, f.duration, f.failures}
}

// Describe lists the metrics.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, one := range f.all() {
		one.Describe(c)
	}
}

// Collect reads them.
func (f *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, one := range f.all() {
		one.Collect(c)
	}
}

// ended counts an accepted result. If the transaction is rolled back afterwards, the node sends the
// result again and it is counted twice.
func (f *Metrics) ended(t protocol.Type, dispatch, duration float64, code protocol.RejectReason) {
	if f == nil {
		return
	}
	f.dispatch.WithLabelValues(string(t)).Observe(dispatch)
	f.duration.WithLabelValues(string(t)).Observe(duration)
	if code != "" {
		f.failures.WithLabelValues(string(t), string(code)).Inc()
	}
}

func (f *Metrics) expired(t protocol.Type, n int) {
	if f != nil && n > 0 {
		f.failures.WithLabelValues(string(t), Timeout).Add(float64(n))
	}
}
