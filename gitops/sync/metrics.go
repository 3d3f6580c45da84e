package sync

import "github.com/prometheus/client_golang/prometheus"

// Metrics count the polls of sources.
type Metrics struct{ fetches *prometheus.CounterVec }

// NewMetrics makes them.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_git_fetch_total", Help: "Fetches of Git sources, by result.",
	}, []string{"source", "result"})}
}

// Describe names the figure.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) { f.fetches.Describe(c) }

// Collect reads it.
func (f *Metrics) Collect(c chan<- prometheus.Metric) { f.fetches.Collect(c) }

func (f *Metrics) count(source, result string) {
	if f != nil {
		f.fetches.WithLabelValues(source, result).Inc()
	}
}
