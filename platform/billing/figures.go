package billing

import "github.com/prometheus/client_golang/prometheus"

// Figures shows what the last check of the books found. Before the first one
// there is nothing to show.
type Figures struct{ mismatch *prometheus.GaugeVec }

var _ prometheus.Collector = (*Figures)(nil)

// NewFigures makes them.
func NewFigures() *Figures {
	return &Figures{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gpuaas_ledger_mismatch_minor", Help: "Difference between usage, payments and balances and their ledger entries, in minor units.",
	}, []string{"currency"})}
}

// Describe names the figure.
func (f *Figures) Describe(c chan<- *prometheus.Desc) { f.mismatch.Describe(c) }

// Collect reads it.
func (f *Figures) Collect(c chan<- prometheus.Metric) { f.mismatch.Collect(c) }

func (f *Figures) set(b Books) {
	for currency, m := range b.Mismatch() {
		f.mismatch.WithLabelValues(currency).Set(float64(m)) //nolint:forbidigo // a gauge is one; nobody counts with it
	}
}
