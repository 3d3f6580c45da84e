package payment

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts the provider's events by type and result.
type Metrics struct{ events *prometheus.CounterVec }

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes counters at zero.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_stripe_events_total", Help: "Events of the payment provider, by type and result.",
	}, []string{"type", "result"})}
}

// Describe names the figure.
func (f *Metrics) Describe(c chan<- *prometheus.Desc) { f.events.Describe(c) }

// Collect reads it.
func (f *Metrics) Collect(c chan<- prometheus.Metric) { f.events.Collect(c) }

// Count adds an event whose work is committed.
func (f *Metrics) Count(o Outcome) { f.count(o.Type, o.Result) }

func (f *Metrics) count(kind, result string) {
	if f == nil {
		return
	}
	if !isHandled(kind) {
		kind = "other" // as many as the provider may think of
	}
	f.events.WithLabelValues(kind, result).Inc()
}

// isHandled reports whether events of this type are processed.
func isHandled(kind string) bool {
	return isCheckout(kind) || isIntent(kind) || isDispute(kind) || strings.HasPrefix(kind, "refund.") || kind == "charge.refund.updated"
}
