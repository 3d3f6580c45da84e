package web

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// events is an hour with one event per second. The page gets them at 100 per second.
const events = 3_600

const pumped = `
	const end = window.events + %d;
	const timer = setInterval(() => { window.emit(); if (window.events >= end) { clearInterval(timer); setTimeout(() => done(true), 1500); } }, 10);`

// Heap measures how much memory of scripts an hour of events leaves behind.
func Heap(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := signedIn(ctx, l, "w7")
	if err != nil {
		return nil, err
	}
	defer b.stop()
	if err := b.openFake(ctx, 200); err != nil {
		return nil, err
	}
	if err := b.call(ctx, "POST", "/timeouts", map[string]any{"script": 300_000}, nil); err != nil {
		return nil, err
	}
	n := l.Scaled(events, 100)
	before, err := b.heapAfter(ctx, n/10)
	if err != nil {
		return nil, err
	}
	after, err := b.heapAfter(ctx, n)
	if err != nil {
		return nil, err
	}
	return []lab.Row{limited("W7", fmt.Sprintf("memory of the page after %d events / before, growth", n), " MB", max(0, after-before), 10)}, nil
}

// heapAfter sends events to the page, collects the garbage, and returns the used memory in MB.
func (b *browser) heapAfter(ctx context.Context, n int) (float64, error) {
	if err := b.async(ctx, fmt.Sprintf(pumped, n), nil); err != nil {
		return 0, err
	}
	if err := b.devtools(ctx, "HeapProfiler.collectGarbage", map[string]any{}, nil); err != nil {
		return 0, err
	}
	var usage struct {
		UsedSize float64 `json:"usedSize"`
	}
	err := b.devtools(ctx, "Runtime.getHeapUsage", map[string]any{}, &usage)
	return usage.UsedSize / 1e6, err
}
