package middleware

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

var (
	authzDecisions = prometheus.NewDesc("gpuaas_authz_decisions_total", "Authorisation decisions.", []string{"effect", "operation"}, nil)
	limitDecisions = prometheus.NewDesc("gpuaas_ratelimit_decisions_total", "Decisions of the rate limiter.", []string{"class", "result"}, nil)
)

var _ prometheus.Collector = (*Chain)(nil)

// Describe sends the descriptions of all metrics.
func (s *Chain) Describe(c chan<- *prometheus.Desc) {
	c <- authzDecisions
	c <- limitDecisions
}

// Collect reads the counters, which each request adds to without a lock.
func (s *Chain) Collect(c chan<- prometheus.Metric) {
	for _, op := range s.operations {
		c <- prometheus.MustNewConstMetric(authzDecisions, prometheus.CounterValue, float64(op.Allows.Load()), "allow", op.ID)
		c <- prometheus.MustNewConstMetric(authzDecisions, prometheus.CounterValue, float64(op.Denies.Load()), "deny", op.ID)
	}
	for class := request.ClassRead; class < request.Classes; class++ {
		for r := range results {
			n := s.limiter.decisions[class][r].Load()
			c <- prometheus.MustNewConstMetric(limitDecisions, prometheus.CounterValue, float64(n), class.String(), resultNames[r])
		}
	}
}
