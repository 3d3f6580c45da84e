package api

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// reads is the number of reads by id in each run of A2, over as many connections as A1.
const reads = 10_000

// Middlewares compares GET /api/v1/allocations/{id} through the whole API with the same handler
// without middlewares, in one process, on one pool and behind the same HTTP server.
func Middlewares(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(reads, 10*lab.Connections)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	url, err := l.Database(ctx, "a2")
	if err != nil {
		return nil, err
	}
	if err := (lab.Market{Tenants: 1, Nodes: 8, SlotsPerNode: readCount / 8}).Open(ctx, l, url); err != nil {
		return nil, err
	}
	said, stop, err := startAPI(ctx, l, url)
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); stop() }()
	read := func(address string) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			return sendLoad(ctx, l, lab.LoadParameters{Address: address, Count: n, Connections: lab.Connections, Tenants: 1, Paths: said.Paths})
		}
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, read(said.Whole), read(said.Bare))
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, n, "A2", "GET allocation by id, everything on, token cached / the same handler bare").AtLeast(0.85)
	r.Note = fmt.Sprintf("%d reads a run over %d connections", n, lab.Connections)
	return []lab.Row{r, said.allocations(), said.time()}, nil
}

// allocations returns the row with the allocations that the middlewares add.
func (said apiReady) allocations() lab.Row {
	const most = 10
	with, bare := said.Allocations[0], said.Allocations[1]
	more := with - bare
	return lab.Row{
		ID: "A2-allocs", Path: "allocations that the middlewares add to it", Ours: more, Peer: most, Ratio: more / most, Min: more / most, Max: more / most,
		Goal: fmt.Sprintf("≤ %d", most), Met: new(more <= most), Note: fmt.Sprintf("%s with them, %s bare, with a service in memory", lab.Number(with), lab.Number(bare)),
	}
}

// time returns the row with the CPU time of a read with the middlewares and without. A time alone would depend on the
// computer.
func (said apiReady) time() lab.Row {
	const most = 2.2
	with, bare := said.Micros[0], said.Micros[1]
	share := with / bare
	return lab.Row{
		ID: "A2-time", Path: "CPU time of it with the middlewares / bare, with a service in memory", Unit: " µs", Ours: with, Peer: bare,
		Ratio: share, Min: share, Max: share, Goal: fmt.Sprintf("≤ %g", most), Met: new(share <= most),
	}
}

// startAPI starts the API in a separate process and waits until it serves.
func startAPI(ctx context.Context, l *lab.Lab, url string) (said apiReady, stop func(), err error) {
	text, err := json.Marshal(apiParameters{URL: url, Log: filepath.Join(l.Dir, "api.log"), Smoke: l.Smoke})
	if err != nil {
		return said, nil, fmt.Errorf("encoding the parameters: %w", err)
	}
	cmd, err := l.ChildCommand(ctx, "api", apiVariable+"="+string(text))
	if err != nil {
		return said, nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return said, nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = out.Close() }() // the process writes nothing more
	cmd.Stdout = in
	err = cmd.Start()
	_ = in.Close() // the API has its own handle
	if err != nil {
		return said, nil, fmt.Errorf("starting the API: %w", err)
	}
	stop = func() { _ = cmd.Wait() } // it was ordered to end
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		_ = cmd.Process.Kill()
		stop()
		return said, nil, fmt.Errorf("the API did not start: %w", err)
	}
	return said, stop, nil
}
