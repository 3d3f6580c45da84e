package web

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// watched stores when each text of the first column of the table was painted, in milliseconds since 1970.
const watched = `
	window.painted = {};
	new MutationObserver(() => {
		for (const row of document.querySelectorAll("tbody tr")) {
			const name = row.querySelector("a")?.textContent;
			if (name && !(name in window.painted)) {
				window.painted[name] = 0;
				requestAnimationFrame(() => setTimeout(() => (window.painted[name] = Date.now())));
			}
		}
	}).observe(document.body, {childList: true, subtree: true, characterData: true});`

// creations is the number of measured events.
const creations = 20

// EventToPixel measures the time from the start of the transaction that creates an allocation until its row is painted.
func EventToPixel(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := signedIn(ctx, l, "w6")
	if err != nil {
		return nil, err
	}
	defer b.stop()
	if err := b.open(ctx, "/portal/allocations"); err != nil {
		return nil, err
	}
	if err := b.waits(ctx, `document.querySelector('[data-stream="live"]') !== null && document.querySelector("[data-state=empty]") !== null`); err != nil {
		return nil, err
	}
	if err := b.script(ctx, watched, nil); err != nil {
		return nil, err
	}
	var took []float64
	for n := range max(min(creations, l.Scaled(creations*20, 2)), 2) {
		millis, err := b.appears(ctx, fmt.Sprintf("pixel-%d", n))
		if err != nil {
			return nil, err
		}
		took = append(took, millis)
	}
	return []lab.Row{
		limited("W6", "an allocation is created by the CLI → its row is painted, p50", " ms", lab.Median(took), 150),
		limited("W6-p99", "the same, p99", " ms", lab.Quantile(took, 0.99), 1000),
	}, nil
}

// calm is longer than the time for which the portal collects the events of a burst. The release before a creation is one.
const calm = time.Second

// appears creates an allocation, waits for its row, and releases it.
func (b *browser) appears(ctx context.Context, name string) (float64, error) {
	lab.Wait(ctx, calm)
	if err := b.server.Run(ctx, "alloc", "create", "--sku", "t4", "--name", name, "--queue", "--yes"); err != nil {
		return 0, err
	}
	if err := b.waits(ctx, fmt.Sprintf(`window.painted[%q] > 0`, name)); err != nil {
		return 0, err
	}
	created, err := b.server.Millis(ctx, "created_at", fmt.Sprintf("allocations WHERE name = '%s'", name))
	if err != nil {
		return 0, err
	}
	var painted int
	if err := b.script(ctx, fmt.Sprintf(`return window.painted[%q]`, name), &painted); err != nil {
		return 0, err
	}
	return float64(painted - created), b.server.Run(ctx, "alloc", "release", name, "--yes", "--wait")
}
