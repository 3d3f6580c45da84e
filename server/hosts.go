package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// hosts are the figures of machines, read when they are asked for with the rights of
// the workers.
type hosts struct{ *set }

const millisecond = 1e3

var (
	lastReport  = prometheus.NewDesc("gpuaas_node_last_report_timestamp_seconds", "Time of the last report of a node.", []string{"node"}, nil)
	tasksQueued = prometheus.NewDesc("gpuaas_node_tasks_queued", "Node tasks without a result.", []string{"type"}, nil)
	expiry      = prometheus.NewDesc("gpuaas_certificate_expiry_seconds", "Remaining validity of node certificates: the shortest, and quantiles of the fleet.", []string{"quantile"}, nil)
)

// Describe names the figures.
func (hosts) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lastReport, tasksQueued, expiry} {
		c <- d
	}
}

// Collect asks the rooms.
func (h hosts) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	names, err := h.inventory.NamesOf(ctx)
	last, failed := h.observed.LastReports(ctx)
	if err == nil && failed == nil {
		for id, at := range last {
			if name, listed := names[id]; listed {
				c <- prometheus.MustNewConstMetric(lastReport, prometheus.GaugeValue, float64(at.UnixMilli())/millisecond, name)
			}
		}
	}
	if queued, err := h.tasks.Queued(ctx); err == nil {
		for kind, n := range queued {
			c <- prometheus.MustNewConstMetric(tasksQueued, prometheus.GaugeValue, float64(n), kind)
		}
	}
	if quantiles, err := h.certificates.Expiry(ctx); err == nil {
		for quantile, seconds := range quantiles {
			c <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, seconds, quantile)
		}
	}
}
