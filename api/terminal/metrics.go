package terminal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/product/terminal"
)

// Metrics counts sessions and rejected tokens.
type Metrics struct {
	sessions *prometheus.GaugeVec
	connects *prometheus.CounterVec
	rejects  *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	opening  prometheus.Histogram
}

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	m := &Metrics{
		sessions: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpuaas_terminal_sessions", Help: "Open terminals and SSH connections."}, []string{"purpose"}),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_terminal_connects_total", Help: "Connections to nodes for terminals and SSH."}, []string{"purpose", "result"}),
		rejects:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_terminal_token_rejects_total", Help: "Terminal tokens that were not accepted."}, []string{"code"}),
		bytes:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_terminal_bytes_total", Help: "Bytes of ended sessions, by direction as the server sees it."}, []string{"direction"}),
		opening:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gpuaas_terminal_open_seconds", Help: "Time from the handshake until the shell has begun.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 12)}),
	}
	for _, p := range []terminal.Purpose{terminal.Shell, terminal.SSH} {
		m.sessions.WithLabelValues(string(p))
		m.connects.WithLabelValues(string(p), "connected")
		m.connects.WithLabelValues(string(p), "failed")
	}
	m.bytes.WithLabelValues("received")
	m.bytes.WithLabelValues("sent")
	return m
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.sessions, m.connects, m.rejects, m.bytes, m.opening}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, one := range m.all() {
		one.Describe(c)
	}
}

// Collect sends all metrics.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, one := range m.all() {
		one.Collect(c)
	}
}

// ConnectFailed counts a session that has not reached its node.
func (m *Metrics) ConnectFailed(p terminal.Purpose) {
	m.connects.WithLabelValues(string(p), "failed").Inc()
}

func (m *Metrics) ended(p terminal.Purpose, e terminal.Ended) {
	m.sessions.WithLabelValues(string(p)).Dec()
	m.bytes.WithLabelValues("received").Add(float64(e.Received))
	m.bytes.WithLabelValues("sent").Add(float64(e.Sent))
}
