package follow

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// Figures are what is counted about looks, and read of sources when asked.
type Figures struct {
	store   *desired.Store
	clock   clock.Clock
	fetches *prometheus.CounterVec
}

var lag = prometheus.NewDesc("gpuaas_git_sync_lag_seconds", "For how long a source has named what is not applied, or has given no answer.", []string{"source"}, nil)

// NewFigures makes them.
func NewFigures(store *desired.Store, now clock.Clock) *Figures {
	return &Figures{store, now, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_git_fetch_total", Help: "Looks at Git sources, by what came of them.",
	}, []string{"source", "result"})}
}

func (f *Figures) count(source, result string) {
	if f != nil {
		f.fetches.WithLabelValues(source, result).Inc()
	}
}

// Describe names the figures.
func (f *Figures) Describe(c chan<- *prometheus.Desc) {
	c <- lag
	f.fetches.Describe(c)
}

// readWithin keeps a slow database from holding scrapes up; mostSources are more
// than anybody follows.
const (
	readWithin  = 5 * time.Second
	mostSources = 1000
)

// Collect reads them. What cannot be read is left out: a gap in a graph is true, a
// zero is not.
func (f *Figures) Collect(c chan<- prometheus.Metric) {
	f.fetches.Collect(c)
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	list, err := f.store.Sources(ctx, "", mostSources)
	if err != nil {
		return
	}
	for _, s := range list {
		if s.GoneAt == nil {
			c <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, s.Lag(f.clock.Now()).Seconds(), s.Name)
		}
	}
}
