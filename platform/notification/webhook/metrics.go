package webhook

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Metrics counts requests, and collects the backlog at each scrape.
type Metrics struct {
	DB         pg.Pool
	deliveries *prometheus.CounterVec
	latency    prometheus.Histogram
}

// NewMetrics returns metrics with a series for each result.
func NewMetrics(db pg.Pool) *Metrics {
	m := &Metrics{
		DB: db,
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuaas_webhook_deliveries_total", Help: "Requests to webhook endpoints by result (delivered, failed).",
		}, []string{"result"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuaas_webhook_latency_seconds", Help: "Time of a request to a webhook endpoint.", Buckets: []float64{.01, .05, .1, .5, 1, 2.5, 5, 10, 15},
		}),
	}
	for _, result := range []string{"delivered", "failed"} {
		m.deliveries.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) count(r result) {
	label := "failed"
	if r.Delivered {
		label = "delivered"
	}
	m.deliveries.WithLabelValues(label).Inc()
	m.latency.Observe((time.Duration(r.LatencyMS) * time.Millisecond).Seconds())
}

// scrapeTimeout bounds the query, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

var backlogDesc = prometheus.NewDesc("gpuaas_webhook_backlog_seconds", "Time for which a delivery to a working endpoint has been due.", nil, nil)

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	m.deliveries.Describe(c)
	m.latency.Describe(c)
	c <- backlogDesc
}

// Collect reads the backlog. What cannot be read is left out.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.deliveries.Collect(c)
	m.latency.Collect(c)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	var seconds float64
	if err := m.DB.QueryRow(ctx, selectBacklog).Scan(&seconds); err == nil {
		c <- prometheus.MustNewConstMetric(backlogDesc, prometheus.GaugeValue, seconds)
	}
}
