package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

const (
	// listeningAgents is the number of agents of T7 that wait at the same time.
	listeningAgents = 5000
	// counted is the time in which requests and statements are counted: each mailbox is read twice in it without a hint.
	counted = 11 * time.Second
)

// waited contains the needs of agents that wait.
type waited struct {
	kib float64 // each of them
	calls
}

// WithoutStreams compares agents that can open streams and open none with agents that cannot: memory, requests and statements.
func WithoutStreams(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n, wait := l.Scaled(listeningAgents, 50), counted
	if l.Smoke {
		wait /= 50
	}
	of := map[string]waited{}
	for _, kind := range []string{nodeAPI, streamed} {
		w, err := waiting(ctx, l, kind, n, wait)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		of[kind] = w
	}
	with, without := of[streamed], of[nodeAPI]
	memory := lab.Row{ID: "T7", Path: fmt.Sprintf("each of %d agents that can open streams and wait / that cannot, as in F1", n), Unit: " KiB", Ours: with.kib, Peer: without.kib, Ratio: with.kib / without.kib}
	memory.Min, memory.Max = memory.Ratio, memory.Ratio
	further := float64(with.Requests - without.Requests)
	requests := lab.Row{ID: "T7-requests", Path: fmt.Sprintf("requests of all of them in %s, in addition", wait), Ours: further, Ratio: further, Min: further, Max: further, Goal: "0", Met: new(further == 0)}
	requests.Note = fmt.Sprintf("%d requests of the one and %d of the others", with.Requests, without.Requests)
	statements := float64(with.Streams) / float64(max(with.Mailboxes, 1))
	reads := lab.Row{ID: "T7-sql", Path: "statements for streams with each statement that reads mailboxes", Ours: statements, Peer: 1, Ratio: statements, Min: statements, Max: statements}
	reads.Note = fmt.Sprintf("%d in %s, each for at most 1000 agents", with.Streams, wait)
	return []lab.Row{memory.AtMost(1.02), requests, reads.AtMost(1)}, nil
}

func waiting(ctx context.Context, l *lab.Lab, kind string, n int, while time.Duration) (w waited, err error) {
	g, err := newGathering(ctx, l, kind, n)
	if err != nil {
		return w, err
	}
	defer g.end()
	if w.kib, err = g.growth(ctx, l, n); err != nil {
		return w, err
	}
	before, err := g.calls()
	if err != nil {
		return w, err
	}
	lab.Wait(ctx, while)
	after, err := g.calls()
	w.calls = calls{after.Requests - before.Requests, after.Mailboxes - before.Mailboxes, after.Streams - before.Streams}
	return w, err
}

func (g gathering) calls() (c calls, err error) {
	answer, err := g.server.Do("calls")
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(answer.Text), &c); err != nil {
		return c, fmt.Errorf("reading the calls: %w", err)
	}
	return c, nil
}
