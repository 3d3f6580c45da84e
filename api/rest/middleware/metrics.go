package middleware

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

var (
	authzDecisions = prometheus.NewDesc("gpuaas_authz_decisions_total", "Authorisation decisions.", []string{"effect", "operation"}, nil)
	limitDecisions = prometheus.NewDesc("gpuaas_ratelimit_decisions_total", "Decisions of the rate limiter.", []string{"class", "result"}, nil)
)

// metrics measure the requests of the API.
type metrics struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

func newMetrics() metrics {
	return metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuaas_http_request_duration_seconds", Help: "Duration of requests of the API, by operation and class of the status.",
			Buckets: []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 1, 3, 10}, // 0.5: the objective api-latency
		}, []string{"operation", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuaas_http_errors_total", Help: "Responses of the API with an error, by operation and code.",
		}, []string{"operation", "code"}),
	}
}

// classes are the classes of a status, by its first digit.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// measure counts a request that has ended.
func (s *Chain) measure(status int, r *request.Call, took time.Duration) {
	class := classes[0]
	if digit := status / 100; digit < len(classes) {
		class = classes[digit]
	}
	s.metrics.duration.WithLabelValues(operationOf(r), class).Observe(took.Seconds())
	if r.Code != "" {
		s.metrics.errors.WithLabelValues(operationOf(r), string(r.Code)).Inc()
	}
}

var _ prometheus.Collector = (*Chain)(nil)

// Describe sends the descriptions of all metrics.
func (s *Chain) Describe(c chan<- *prometheus.Desc) {
	c <- authzDecisions
	c <- limitDecisions
	s.metrics.duration.Describe(c)
	s.metrics.errors.Describe(c)
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
	s.metrics.duration.Collect(c)
	s.metrics.errors.Collect(c)
}
