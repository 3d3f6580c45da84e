// Package node measures the node API with many agents, and the agent itself.
package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// waitingAgents is the number of agents in F1 that wait at the same time.
const waitingAgents = 10_000

// WaitingMemory measures the resident memory of the server process for each waiting agent.
func WaitingMemory(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(waitingAgents, 50)
	each := map[string]float64{}
	for _, kind := range []string{bareTLS, longPoll, nodeAPI} {
		kib, err := memoryOfEach(ctx, l, kind, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		l.Say("F1: %s: %.1f KiB for each of %d", kind, kib, n)
		each[kind] = kib
	}
	one := func(id, path string, peer string) lab.Row {
		r := lab.Row{ID: id, Path: path, Unit: " KiB", Ours: each[nodeAPI], Peer: each[peer], Ratio: each[nodeAPI] / each[peer]}
		r.Min, r.Max = r.Ratio, r.Ratio
		return r
	}
	r := one("F1", fmt.Sprintf("each of %d agents that wait / long poll of net/http", n), longPoll).AtMost(0.7)
	r.Note = "resident memory of the listener above its start, after a collection; every agent has its own certificate; clients in another process; kernel buffers are in neither"
	return []lab.Row{r, one("F1-bare", "the same / bare tls.Conn in Read", bareTLS).AtMost(1.1)}, nil
}

func memoryOfEach(ctx context.Context, l *lab.Lab, kind string, n int) (float64, error) {
	g, err := newGathering(ctx, l, kind, n)
	if err != nil {
		return 0, err
	}
	defer g.end()
	return g.growth(ctx, l, n)
}

// growth lets n agents wait, and returns the memory of the listener for each in KiB.
func (g gathering) growth(ctx context.Context, l *lab.Lab, n int) (float64, error) {
	before, err := g.server.Do("rss")
	if err != nil {
		return 0, err
	}
	if _, err := g.crowd.Do("wait"); err != nil {
		return 0, err
	}
	parking := time.Second // the last polls are being parked
	if l.Smoke {
		parking /= 10
	}
	lab.Wait(ctx, parking)
	after, err := g.server.Do("rss")
	if err != nil {
		return 0, err
	}
	return (after.KiB - before.KiB) / float64(n), nil
}
