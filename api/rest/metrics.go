package rest

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	authzDecisions = prometheus.NewDesc("gpuaas_authz_decisions_total", "Authorisation decisions.", []string{"effect", "operation"}, nil)
	limitDecisions = prometheus.NewDesc("gpuaas_ratelimit_decisions_total", "Decisions of the rate limiter.", []string{"class", "result"}, nil)
)

// count is one decision about the operation.
func (op *operation) count(allowed bool) {
	if allowed {
		op.allows.Add(1)
		return
	}
	op.denies.Add(1)
}

var _ prometheus.Collector = (*Server)(nil)

// Describe names the figures of this door.
func (s *Server) Describe(c chan<- *prometheus.Desc) {
	c <- authzDecisions
	c <- limitDecisions
}

// Collect reads the counters, which each request adds to without a lock.
func (s *Server) Collect(c chan<- prometheus.Metric) {
	for _, op := range s.operations {
		c <- prometheus.MustNewConstMetric(authzDecisions, prometheus.CounterValue, float64(op.allows.Load()), "allow", op.id)
		c <- prometheus.MustNewConstMetric(authzDecisions, prometheus.CounterValue, float64(op.denies.Load()), "deny", op.id)
	}
	for class := ClassRead; class < classes; class++ {
		for r := range results {
			n := s.limiter.decisions[class][r].Load()
			c <- prometheus.MustNewConstMetric(limitDecisions, prometheus.CounterValue, float64(n), class.String(), resultNames[r])
		}
	}
}
