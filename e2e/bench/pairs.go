package main

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// side does one side's work and says how long the measured part took; 0 means
// all of it.
type side func(ctx context.Context) (time.Duration, error)

// pairs holds what alternating runs took, in seconds.
type pairs struct {
	a, b       []float64
	cpuA, cpuB float64 // in all
}

// alternate runs a b a b … after one warm-up of each; before comes ahead of every
// run and is not measured.
func (l *lab) alternate(ctx context.Context, n int, before func(context.Context) error, a, b side) (p pairs, err error) {
	if l.Smoke {
		n = 1
	}
	for i := range n + 1 {
		for _, s := range []struct {
			do   side
			took *[]float64
			cpu  *float64
		}{{a, &p.a, &p.cpuA}, {b, &p.b, &p.cpuB}} {
			if err := before(ctx); err != nil {
				return p, err
			}
			took, cpu, err := l.timed(ctx, s.do)
			if err != nil {
				return p, err
			}
			if i > 0 {
				*s.took = append(*s.took, took.Seconds())
				*s.cpu += cpu
			}
		}
	}
	return p, nil
}

func (l *lab) timed(ctx context.Context, do side) (time.Duration, float64, error) {
	cpu := l.cpu()
	began := clock.Clock{}.Now()
	took, err := do(ctx)
	if took == 0 {
		took = clock.Clock{}.Now().Sub(began)
	}
	return took, l.cpu() - cpu, err
}

// ratios of a to b, pair by pair.
func (p pairs) ratios() (mid, least, most float64) {
	var list []float64
	for i := range p.a {
		list = append(list, p.a[i]/p.b[i])
	}
	return median(list), quantile(list, 0), quantile(list, 1)
}

// row says it as time taken, ours being a; each of the n runs did so many
// operations.
func (p pairs) row(id, path string, operations int) row {
	r := row{ID: id, Path: path, Unit: " s", Ours: median(p.a), Peer: median(p.b)}
	r.Ratio, r.Min, r.Max = p.ratios()
	all := float64(operations * len(p.a))
	r.CPUOurs, r.CPUPeer = p.cpuA/all, p.cpuB/all
	return r
}
