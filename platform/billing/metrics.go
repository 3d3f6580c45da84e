package billing

import "github.com/prometheus/client_golang/prometheus"

// Metrics shows what the last check of the books found. Before the first one
// there is nothing to show.
type Metrics struct{ mismatch *prometheus.GaugeVec }

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes them.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gpuaas_ledger_mismatch_minor", Help: "Difference between usage, payments and balances and their ledger entries, in minor units.",
	}, []string{"currency"})}
}

// Describe names the figure.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) { f.mismatch.Describe(c) }

// Collect reads it.
func (f *Metrics) Collect(c chan<- prometheus.Metric) { f.mismatch.Collect(c) }

func (f *Metrics) set(b Books) {
	for currency, m := range b.Mismatch() {
		f.mismatch.WithLabelValues(currency).Set(float64(m)) //nolint:forbidigo // a gauge is one; nobody counts with it
	}
}
