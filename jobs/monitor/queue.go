// Package monitor measures the jobs of River: what waits, and what has ended.
package monitor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Queue collects the jobs of River that have not succeeded, at each scrape.
type Queue struct{ DB pg.Queryer }

var (
	jobCount = prometheus.NewDesc("gpuaas_jobs", "Jobs that wait, run, wait for another attempt, or were given up.", []string{"kind", "state"}, nil)
	jobAge   = prometheus.NewDesc("gpuaas_jobs_oldest_age_seconds", "Time for which the oldest job of a kind has waited for a worker.", []string{"kind"}, nil)
)

const countJobs = `
	SELECT kind, state::text, count(*), coalesce(extract(epoch FROM now() - min(scheduled_at) FILTER (WHERE state = 'available')), 0)::float8
	FROM river.river_job WHERE state IN ('available', 'running', 'retryable', 'discarded') GROUP BY 1, 2`

// scrapeTimeout bounds the query, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

// Describe sends the descriptions of all metrics.
func (Queue) Describe(c chan<- *prometheus.Desc) {
	c <- jobCount
	c <- jobAge
}

// Collect counts the jobs. What cannot be read is left out.
func (m Queue) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	rows, err := m.DB.Query(ctx, countJobs)
	if err != nil {
		return
	}
	var kind, state string
	var n, age float64
	_, _ = pgx.ForEachRow(rows, []any{&kind, &state, &n, &age}, func() error { // a row that was read is true, also without the others
		c <- prometheus.MustNewConstMetric(jobCount, prometheus.GaugeValue, n, kind, state)
		if state == "available" {
			c <- prometheus.MustNewConstMetric(jobAge, prometheus.GaugeValue, age, kind)
		}
		return nil
	})
}
