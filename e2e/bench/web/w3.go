package web

import (
	"context"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// scrolling scrolls the table by 400 pixels in each of 240 frames, and calls done with the times of the frames in
// milliseconds, and the largest number of rows in the document.
const scrolling = `
	const table = document.querySelector(".scroll");
	const times = [];
	let rows = 0, last = performance.now();
	const step = (now) => {
		times.push(now - last);
		last = now;
		rows = Math.max(rows, document.querySelectorAll("tbody tr").length);
		table.scrollTop += 400;
		if (times.length < 240) requestAnimationFrame(step); else done({times: times.slice(10), rows});
	};
	requestAnimationFrame(step);`

// LongTable measures the frames of a table of 10,000 rows while it scrolls.
func LongTable(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := signedIn(ctx, l, "w3")
	if err != nil {
		return nil, err
	}
	defer b.stop()
	if err := b.openFake(ctx, 10_000); err != nil {
		return nil, err
	}
	var got struct {
		Times []float64
		Rows  float64
	}
	if err := b.async(ctx, scrolling, &got); err != nil {
		return nil, err
	}
	return []lab.Row{
		limited("W3", "10,000 rows: a frame while scrolling, p95", " ms", lab.Quantile(got.Times, 0.95), 25),
		limited("W3-rows", "rows in the document", "", got.Rows, 60),
	}, nil
}
