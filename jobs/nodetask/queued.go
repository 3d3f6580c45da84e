package nodetask

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// QueuedMetrics collects the number of tasks in mailboxes, at each scrape.
type QueuedMetrics struct{ *Store }

var tasksQueued = prometheus.NewDesc("gpuaas_node_tasks_queued", "Node tasks without a result.", []string{"type"}, nil)

// scrapeTimeout bounds the query, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

// Describe sends the description of the metric.
func (QueuedMetrics) Describe(c chan<- *prometheus.Desc) { c <- tasksQueued }

// Collect counts the tasks by type. A count that cannot be read is left out.
func (m QueuedMetrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	queued, err := m.Queued(ctx)
	if err != nil {
		return
	}
	for kind, n := range queued {
		c <- prometheus.MustNewConstMetric(tasksQueued, prometheus.GaugeValue, float64(n), kind)
	}
}
