package web

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// observed stores the durations of interactions: from the input to the next paint, in milliseconds.
const observed = `
	window.durations = new Map();
	new PerformanceObserver((list) => list.getEntries().filter(({interactionId}) => interactionId > 0).forEach(({interactionId, duration}) =>
		window.durations.set(interactionId, Math.max(duration, window.durations.get(interactionId) ?? 0)))).observe({type: "event", durationThreshold: 16});
	setInterval(() => window.emit(), 20);`

// clicks is the number of interactions.
const clicks = 100

// Interactions measures the time from a click on the list of allocations to its paint, while 50 events per second change it.
func Interactions(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := signedIn(ctx, l, "w4")
	if err != nil {
		return nil, err
	}
	defer b.stop()
	if err := b.openFake(ctx, 1_000); err != nil {
		return nil, err
	}
	if err := b.script(ctx, observed, nil); err != nil {
		return nil, err
	}
	n := max(min(clicks, l.Scaled(clicks*20, 5)), 5)
	for range n {
		if err := b.clicks(ctx, `input[aria-label="Select row-3"]`); err != nil {
			return nil, err
		}
		lab.Wait(ctx, 100*time.Millisecond)
	}
	// An interaction that took less than 16 ms is not reported.
	var slow []float64
	if err := b.script(ctx, `return [...window.durations.values()]`, &slow); err != nil {
		return nil, err
	}
	all := append(slow, make([]float64, max(0, n-len(slow)))...)
	return []lab.Row{limited("W4", "a click on a list of 1,000 rows at 50 events per second, p98", " ms", lab.Quantile(all, 0.98), 200)}, nil
}

// clicks clicks an element as a user does.
func (b *browser) clicks(ctx context.Context, selector string) error {
	var found map[string]string
	if err := b.call(ctx, http.MethodPost, "/element", map[string]any{"using": "css selector", "value": selector}, &found); err != nil {
		return err
	}
	for _, id := range found {
		return b.call(ctx, http.MethodPost, "/element/"+id+"/click", nil, nil)
	}
	return nil
}
