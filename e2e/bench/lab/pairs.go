package lab

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// Side executes one side of a pair and returns the duration of the measured part. The result 0
// means that the whole execution counts.
type Side func(ctx context.Context) (time.Duration, error)

// pairs contains the durations of alternating runs in seconds.
type pairs struct {
	a, B       []float64
	cpuA, CpuB float64 // total of all runs
}

// Alternate runs a b a b … after one warm-up of each. It calls before ahead of every run and does
// not measure it.
func (l *Lab) Alternate(ctx context.Context, n int, before func(context.Context) error, a, b Side) (p pairs, err error) {
	if l.Smoke {
		n = 1
	}
	for i := range n + 1 {
		for _, s := range []struct {
			do   Side
			took *[]float64
			cpu  *float64
		}{{a, &p.a, &p.cpuA}, {b, &p.B, &p.CpuB}} {
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

func (l *Lab) timed(ctx context.Context, do Side) (time.Duration, float64, error) {
	cpu := l.Cpu()
	began := clock.Clock{}.Now()
	took, err := do(ctx)
	if took == 0 {
		took = clock.Clock{}.Now().Sub(began)
	}
	return took, l.Cpu() - cpu, err
}

// ratios returns the median, the smallest and the largest ratio of a to B.
func (p pairs) ratios() (mid, least, most float64) {
	var list []float64
	for i := range p.a {
		list = append(list, p.a[i]/p.B[i])
	}
	return Median(list), Quantile(list, 0), Quantile(list, 1)
}

// Row reports the pairs as durations. Side a is ours; each run executed the given number of
// operations.
func (p pairs) Row(id, path string, operations int) Row {
	r := Row{ID: id, Path: path, Unit: " s", Ours: Median(p.a), Peer: Median(p.B)}
	r.Ratio, r.Min, r.Max = p.ratios()
	all := float64(operations * len(p.a))
	r.CPUOurs, r.CPUPeer = p.cpuA/all, p.CpuB/all
	return r
}
