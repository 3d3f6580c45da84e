package main

import (
	"context"
	"fmt"
	"time"
)

// wakeAll is how long it takes to wake everybody, to the last.
func wakeAll(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(waitingAgents, 50)
	sides := map[string]side{}
	for _, kind := range []string{nodeDoor, bareTLS} {
		g, err := l.gathering(ctx, kind, n)
		if err != nil {
			return nil, err
		}
		defer g.end()
		if _, err := g.crowd.do("wait"); err != nil {
			return nil, err
		}
		sides[kind] = func(ctx context.Context) (time.Duration, error) {
			wait(ctx, 3*time.Second) // all wait again
			began, err := g.door.do("wake")
			if err != nil {
				return 0, err
			}
			ended, err := g.crowd.do("woken")
			return time.Duration(ended.At - began.At), err
		}
	}
	p, err := l.alternate(ctx, leastPairs, func(context.Context) error { return nil }, sides[nodeDoor], sides[bareTLS])
	if err != nil {
		return nil, err
	}
	r := p.row("F4", fmt.Sprintf("%d agents woken, to the last / frames of %d bytes on bare TLS", n, frameSize), n).atMost(2)
	r.Note = "from the first hint; one look into the mailboxes for each thousand"
	return []row{r}, nil
}
