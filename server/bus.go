package server

import (
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// busMetrics collects the state of the connection to NATS, at each scrape.
type busMetrics struct{ nats *nats.Conn }

var (
	busConnected  = prometheus.NewDesc("gpuaas_nats_connected", "1 while the server is connected to NATS.", nil, nil)
	busReconnects = prometheus.NewDesc("gpuaas_nats_reconnects_total", "Connections to NATS after the first one.", nil, nil)
)

// Describe sends the descriptions of all metrics.
func (*busMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- busConnected
	c <- busReconnects
}

// Collect reads the state.
func (m *busMetrics) Collect(c chan<- prometheus.Metric) {
	connected := 0.0
	if m.nats.IsConnected() {
		connected = 1
	}
	c <- prometheus.MustNewConstMetric(busConnected, prometheus.GaugeValue, connected)
	c <- prometheus.MustNewConstMetric(busReconnects, prometheus.CounterValue, float64(m.nats.Stats().Reconnects))
}
