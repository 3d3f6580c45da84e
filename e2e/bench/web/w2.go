package web

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// loads is the number of loads of a page for each of the two rows.
const loads = 8

// largest calls done with the time of the largest contentful paint in milliseconds, once nothing larger followed.
const largest = `
	let last = 0;
	new PerformanceObserver((list) => (last = list.getEntries().at(-1).startTime)).observe({type: "largest-contentful-paint", buffered: true});
	setTimeout(() => done(last), 2500);`

// FirstPaint measures the largest contentful paint of the home screen on a slow network and a slow processor.
func FirstPaint(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := signedIn(ctx, l, "w2")
	if err != nil {
		return nil, err
	}
	defer b.stop()
	for _, c := range []struct {
		command    string
		parameters map[string]any
	}{
		{"Network.enable", map[string]any{}},
		{"Network.emulateNetworkConditions", map[string]any{"offline": false, "latency": 60, "downloadThroughput": 9_000_000 / 8, "uploadThroughput": 9_000_000 / 8}},
		{"Emulation.setCPUThrottlingRate", map[string]any{"rate": 4}},
	} {
		if err := b.devtools(ctx, c.command, c.parameters, nil); err != nil {
			return nil, err
		}
	}
	var rows []lab.Row
	for _, kind := range []struct {
		id, path string
		cold     bool
		limit    float64
	}{
		{"W2", "largest paint of the home screen, cold, 9 Mbit/s, 60 ms, CPU ÷ 4, p75", true, 1.5},
		{"W2-warm", "the same with the files in the cache", false, 0.7},
	} {
		took, err := b.paints(ctx, max(min(loads, l.Scaled(loads*20, 1)), 1), kind.cold)
		if err != nil {
			return nil, err
		}
		rows = append(rows, limited(kind.id, kind.path, " s", lab.Quantile(took, 0.75), kind.limit))
	}
	return rows, nil
}

func (b *browser) paints(ctx context.Context, n int, cold bool) (seconds []float64, err error) {
	for range n {
		if cold {
			if err := b.devtools(ctx, "Network.clearBrowserCache", map[string]any{}, nil); err != nil {
				return nil, err
			}
		}
		if err := b.open(ctx, "/portal/"); err != nil {
			return nil, err
		}
		var millis float64
		if err := b.async(ctx, largest, &millis); err != nil {
			return nil, err
		}
		if millis == 0 {
			return nil, fmt.Errorf("the browser has reported no paint")
		}
		seconds = append(seconds, millis/1000)
	}
	return seconds, nil
}
