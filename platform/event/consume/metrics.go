package consume

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Metrics counts failures, and collects the state of the consumers at each scrape.
type Metrics struct {
	DB       pg.Pool
	failures *prometheus.CounterVec
}

// NewMetrics returns metrics with a series for each consumer.
func NewMetrics(db pg.Pool, consumers []Consumer) *Metrics {
	m := &Metrics{DB: db, failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_consumer_failures_total", Help: "Failed attempts to process an event.",
	}, []string{"consumer"})}
	for _, c := range consumers {
		m.failures.WithLabelValues(c.Name)
	}
	return m
}

func (m *Metrics) failed(consumer string) { m.failures.WithLabelValues(consumer).Inc() }

// maxConsumers is above the number of consumers in the code.
const maxConsumers = 1_000

// scrapeTimeout bounds the query, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

var (
	pendingDesc = prometheus.NewDesc("gpuaas_consumer_pending", "Published events that the consumer has not processed.", []string{"consumer"}, nil)
	lagDesc     = prometheus.NewDesc("gpuaas_consumer_lag_seconds", "Age of the oldest event that a consumer has not processed.", []string{"consumer"}, nil)
)

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	m.failures.Describe(c)
	c <- pendingDesc
	c <- lagDesc
}

// Collect reads the states. What cannot be read is left out.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.failures.Collect(c)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	all, err := States(ctx, m.DB, "", maxConsumers)
	if err != nil {
		return
	}
	for _, s := range all {
		c <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(s.Pending), s.Name)
		c <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, s.Lag.Seconds(), s.Name)
	}
}
