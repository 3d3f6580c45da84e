package main

import (
	"context"
	"fmt"
	"time"
)

// F1 keeps ten thousand agents waiting.
const waitingAgents = 10_000

// waitingMemory is what each waiting agent costs the process that it waits at, of
// memory that is resident.
func waitingMemory(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(waitingAgents, 50)
	each := map[string]float64{}
	for _, kind := range []string{bareTLS, longPoll, nodeDoor} {
		kib, err := l.memoryOfEach(ctx, kind, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		l.say("F1: %s: %.1f KiB for each of %d", kind, kib, n)
		each[kind] = kib
	}
	one := func(id, path string, peer string) row {
		r := row{ID: id, Path: path, Unit: " KiB", Ours: each[nodeDoor], Peer: each[peer], Ratio: each[nodeDoor] / each[peer]}
		r.Min, r.Max = r.Ratio, r.Ratio
		return r
	}
	r := one("F1", fmt.Sprintf("each of %d agents that wait / long poll of net/http", n), longPoll).atMost(0.7)
	r.Note = "resident memory of the listener above its start, after a collection; every agent has its own certificate; clients in another process; kernel buffers are in neither"
	return []row{r, one("F1-bare", "the same / bare tls.Conn in Read", bareTLS).atMost(1.1)}, nil
}

func (l *lab) memoryOfEach(ctx context.Context, kind string, n int) (float64, error) {
	g, err := l.gathering(ctx, kind, n)
	if err != nil {
		return 0, err
	}
	defer g.end()
	before, err := g.door.do("rss")
	if err != nil {
		return 0, err
	}
	if _, err := g.crowd.do("wait"); err != nil {
		return 0, err
	}
	wait(ctx, time.Second) // the last polls are being parked
	after, err := g.door.do("rss")
	if err != nil {
		return 0, err
	}
	return (after.KiB - before.KiB) / float64(n), nil
}
