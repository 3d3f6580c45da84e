package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/reconciler"
)

// metrics is served on a port of its own, on loopback: it names nodes, and pprof
// shows memory.
func (s *Server) metrics() http.Handler {
	s.figures.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildOf(), s.rooms.till.figures, s.rooms.drift, s.rooms.taskFigures)
	if loop := s.rooms.sets[RoleReconcile]; loop != nil {
		s.figures.MustRegister(nodeMetrics{loop, s.cfg.Clock})
	}
	if worker := s.rooms.sets[RoleWork]; worker != nil {
		s.figures.MustRegister(meters{worker}, rollouts{worker}, worker.billing.Figures, hosts{worker})
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.figures, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return telemetry.Door("gpuaas/metrics", mux)
}

func buildOf() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpuaas_build_info", Help: "Build of the server."}, []string{"version", "revision"})
	g.WithLabelValues(version.Version, version.Revision()).Set(1)
	return g
}

// nodeMetrics reads its figures when it is asked, so that an idle server computes none.
// They are the loop's to know.
type nodeMetrics struct {
	*set

	clock clock.Clock
}

var (
	dueObjects = prometheus.NewDesc("gpuaas_due_objects", "Objects in the due set.", []string{"kind"}, nil)
	dueAge     = prometheus.NewDesc("gpuaas_due_oldest_age_seconds", "Age of the oldest due object.", []string{"kind"}, nil)
	slots      = prometheus.NewDesc("gpuaas_slots", "Slots by state.", []string{"sku", "region", "state"}, nil)
	gpus       = prometheus.NewDesc("gpuaas_gpus", "GPUs by health; missing GPUs are no longer in the report of their node.", []string{"sku", "region", "state"}, nil)
	breaker    = prometheus.NewDesc("gpuaas_mass_action_stopped", "1 while the breaker is open.", nil, nil)
	sourceLag  = prometheus.NewDesc("gpuaas_git_sync_lag_seconds", "Time since a source has a commit that is not applied, or is not reachable.", []string{"source"}, nil)
	overdue    = prometheus.NewDesc("gpuaas_state_overdue", "Objects past the deadline of their state, or past the deadline of their drift.", []string{"kind", "state"}, nil)
	driftOpen  = prometheus.NewDesc("gpuaas_drift_open", "Open drift.", []string{"kind"}, nil)
)

// Describe names the figures.
func (nodeMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{dueObjects, dueAge, slots, gpus, breaker, sourceLag, driftOpen, overdue} {
		c <- d
	}
}

// scrapeWithin keeps a slow database from holding scrapes up.
const scrapeWithin = 5 * time.Second

// mostSources are more than anybody follows.
const mostSources = 1000

// Collect asks the rooms. A figure that cannot be read is left out: a gap in a
// graph is true, a zero is not.
func (f nodeMetrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	history := &reconciler.History{DB: f.db}
	if loads, err := history.Load(ctx); err == nil {
		for _, l := range loads {
			c <- prometheus.MustNewConstMetric(dueObjects, prometheus.GaugeValue, float64(l.Due), l.Kind)
			c <- prometheus.MustNewConstMetric(dueAge, prometheus.GaugeValue, l.OldestFor.Seconds(), l.Kind)
			c <- prometheus.MustNewConstMetric(driftOpen, prometheus.GaugeValue, float64(l.Drifting), l.Kind)
			c <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, float64(l.Overdue), l.Kind, "drift")
		}
	}
	sources, err := f.desired.Sources(ctx, "", mostSources)
	if err != nil {
		return
	}
	for _, one := range sources {
		if one.GoneAt == nil {
			c <- prometheus.MustNewConstMetric(sourceLag, prometheus.GaugeValue, one.Lag(f.clock.Now()).Seconds(), one.Name)
		}
	}
	f.health(ctx, c)
	capacity, err := f.inventory.Capacity(ctx)
	if err != nil {
		return
	}
	for _, o := range capacity {
		for state, n := range map[string]int{"free": o.Free, "claimed": o.Claimed, "dirty": o.Dirty, "quarantined": o.Quarantined} {
			c <- prometheus.MustNewConstMetric(slots, prometheus.GaugeValue, float64(n), o.SKU, o.Region, state)
		}
	}
}

func (f nodeMetrics) health(ctx context.Context, c chan<- prometheus.Metric) {
	if devices, err := f.inventory.GPUs(ctx); err == nil {
		for _, d := range devices {
			c <- prometheus.MustNewConstMetric(gpus, prometheus.GaugeValue, float64(d.N), d.SKU, d.Region, d.State)
		}
	}
	if trip, ever, err := f.inventory.Breaker(ctx); err == nil {
		stopped := 0.0
		if ever && trip.Standing() {
			stopped = 1
		}
		c <- prometheus.MustNewConstMetric(breaker, prometheus.GaugeValue, stopped)
	}
}

// meters are the workers' to know.
type meters struct{ *set }

var accrualLag = prometheus.NewDesc("gpuaas_accrual_lag_seconds", "Time since the last charged tick.", nil, nil)

// Describe names the figures.
func (meters) Describe(c chan<- *prometheus.Desc) { c <- accrualLag }

// Collect asks the rooms.
func (m meters) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	if lag, err := m.metering.Lag(ctx); err == nil {
		c <- prometheus.MustNewConstMetric(accrualLag, prometheus.GaugeValue, lag.Seconds())
	}
}
