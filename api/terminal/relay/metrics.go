package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/protocol"
)

var streamsDesc = prometheus.NewDesc("gpuaas_relay_streams", "Open connections of agents to this server.", []string{"kind"}, nil)

// Describe sends the description of the metric of open streams.
func (*Server) Describe(to chan<- *prometheus.Desc) { to <- streamsDesc }

// Collect counts the open streams of each kind.
func (s *Server) Collect(to chan<- prometheus.Metric) {
	open := map[protocol.StreamKind]int{protocol.StreamSSH: 0, protocol.StreamLogs: 0}
	s.mu.Lock()
	for c := range s.open {
		open[c.kind]++
	}
	s.mu.Unlock()
	for kind, n := range open {
		to <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, float64(n), string(kind))
	}
}
