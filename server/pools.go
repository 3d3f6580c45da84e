package server

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolMetrics collects the database connections of each role that runs here, at each scrape.
type poolMetrics map[Role]*pgxpool.Pool

var (
	connections     = prometheus.NewDesc("gpuaas_db_connections", "Open connections to PostgreSQL.", []string{"role", "state"}, nil)
	connectionLimit = prometheus.NewDesc("gpuaas_db_connections_limit", "Maximum connections to PostgreSQL.", []string{"role"}, nil)
	acquisitions    = prometheus.NewDesc("gpuaas_db_acquisitions_total", "Acquired connections to PostgreSQL: immediately, after a wait, or not because the request ended.", []string{"role", "result"}, nil)
	connectionWait  = prometheus.NewDesc("gpuaas_db_connection_wait_seconds_total", "Time for which queries waited because all connections were in use.", []string{"role"}, nil)
)

// Describe sends the descriptions of all metrics.
func (poolMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connections, connectionLimit, connectionWait, acquisitions} {
		c <- d
	}
}

// Collect reads the statistics of the pools.
func (m poolMetrics) Collect(c chan<- prometheus.Metric) {
	for role, pool := range m {
		stat := pool.Stat()
		c <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(stat.AcquiredConns()), string(role), "used")
		c <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(stat.IdleConns()), string(role), "idle")
		for result, n := range map[string]int64{
			"immediate": stat.AcquireCount() - stat.EmptyAcquireCount(), "waited": stat.EmptyAcquireCount(), "cancelled": stat.CanceledAcquireCount(),
		} {
			c <- prometheus.MustNewConstMetric(acquisitions, prometheus.CounterValue, float64(n), string(role), result)
		}
		c <- prometheus.MustNewConstMetric(connectionLimit, prometheus.GaugeValue, float64(stat.MaxConns()), string(role))
		c <- prometheus.MustNewConstMetric(connectionWait, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds(), string(role))
	}
}
