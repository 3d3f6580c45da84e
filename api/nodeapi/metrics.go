package nodeapi

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what nodes report and the server does not accept. A nil Metrics counts nothing.
type Metrics struct{ *prometheus.CounterVec }

// The reasons why a report, or a part of it, is not accepted.
const (
	reasonForeign     = "foreign_allocation"
	reasonAllocations = "too_many_allocations"
	reasonGPUs        = "too_many_gpus"
	reasonHostKeys    = "host_keys"
	reasonBoot        = "boot_ahead"
	reasonOrigin      = "not_signed_by_the_node"
	reasonContested   = "gpu_of_another_node"
)

// NewMetrics returns counters at zero.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_node_report_rejected_total", Help: "Reports of nodes, or parts of them, that the server did not accept.",
	}, []string{"reason"})}
	for _, reason := range []string{reasonForeign, reasonAllocations, reasonGPUs, reasonHostKeys, reasonBoot, reasonOrigin, reasonContested} {
		m.WithLabelValues(reason)
	}
	return m
}

func (m *Metrics) rejected(reason string, n int) {
	if m != nil {
		m.WithLabelValues(reason).Add(float64(n))
	}
}
