package rest_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics compares counters, and the counts of histograms, with what they should be, by name and labels.
func (b *fixture) metrics(t *testing.T, want map[string]float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(b.server.Metrics()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			have[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, n := range want {
		if have[name] != n {
			t.Errorf("%s is %v, want %v", name, have[name], n)
		}
	}
}
