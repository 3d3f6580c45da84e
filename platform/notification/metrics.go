package notification

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts notifications by kind, channel and result.
type Metrics struct{ *prometheus.CounterVec }

// NewMetrics returns the counters. The results of e-mails are sent, skipped, deferred, rejected, suppressed, failed and invalid.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_notifications_total", Help: "Notifications by kind, channel and result. An e-mail may be deferred several times.",
	}, []string{"kind", "channel", "result"})}
}

func (m *Metrics) count(kind string, c Channel, result string) {
	if m != nil {
		m.WithLabelValues(kind, string(c), result).Inc()
	}
}
