package payment

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures counts what the provider tells, and what became of it.
type Figures struct{ events *prometheus.CounterVec }

var _ prometheus.Collector = (*Figures)(nil)

// NewFigures makes counters at zero.
func NewFigures() *Figures {
	return &Figures{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_stripe_events_total", Help: "Events of the payment provider, by type and result.",
	}, []string{"type", "result"})}
}

// Describe names the figure.
func (f *Figures) Describe(c chan<- *prometheus.Desc) { f.events.Describe(c) }

// Collect reads it.
func (f *Figures) Collect(c chan<- prometheus.Metric) { f.events.Collect(c) }

// Count adds an event whose work is committed.
func (f *Figures) Count(o Outcome) { f.count(o.Type, o.Result) }

func (f *Figures) count(kind, result string) {
	if f == nil {
		return
	}
	if !told(kind) {
		kind = "other" // as many as the provider may think of
	}
	f.events.WithLabelValues(kind, result).Inc()
}

// told are the types of events that are worked on.
func told(kind string) bool {
	return strings.HasPrefix(kind, "checkout.session.") || strings.HasPrefix(kind, "refund.") ||
		kind == "charge.refund.updated" || kind == "charge.dispute.created"
}
