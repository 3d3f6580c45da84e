package sync

import "github.com/prometheus/client_golang/prometheus"

// Figures count looks at sources.
type Figures struct{ fetches *prometheus.CounterVec }

// NewFigures makes them.
func NewFigures() *Figures {
	return &Figures{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_git_fetch_total", Help: "Fetches of Git sources, by result.",
	}, []string{"source", "result"})}
}

// Describe names the figure.
func (f *Figures) Describe(c chan<- *prometheus.Desc) { f.fetches.Describe(c) }

// Collect reads it.
func (f *Figures) Collect(c chan<- prometheus.Metric) { f.fetches.Collect(c) }

func (f *Figures) count(source, result string) {
	if f != nil {
		f.fetches.WithLabelValues(source, result).Inc()
	}
}
