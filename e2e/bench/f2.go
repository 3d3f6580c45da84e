package main

import (
	"context"
	"fmt"
	"time"
)

// F2 has ten thousand agents come back at one moment.
const agentsThatReturn = 10_000

// storm compares agents that connect, say one thing and hear one thing, with a
// loop that does nothing but accept and shake hands; and those that resume a
// session with those that prove themselves anew.
func storm(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(agentsThatReturn, 50)
	door, err := l.gathering(ctx, nodeDoor, n)
	if err != nil {
		return nil, err
	}
	defer door.end()
	bare, err := l.gathering(ctx, bareTLS, n)
	if err != nil {
		return nil, err
	}
	defer bare.end()
	come := func(g gathering) side {
		return func(context.Context) (time.Duration, error) {
			t, err := g.crowd.do("storm")
			return t.Took, err
		}
	}
	forget := func(context.Context) error {
		for _, g := range []gathering{door, bare} {
			if _, err := g.crowd.do("forget"); err != nil {
				return err
			}
		}
		return nil
	}
	p, err := l.alternate(ctx, leastPairs, forget, come(door), come(bare))
	if err != nil {
		return nil, err
	}
	full := throughput(p, n, "F2", fmt.Sprintf("%d agents come back, full handshakes / bare accept loop", n)).atLeast(0.8)
	full.Note = "handshakes a second to the first answer; both ends share the cores"
	p, err = l.alternate(ctx, leastPairs, func(context.Context) error { return nil },
		come(door), func(ctx context.Context) (time.Duration, error) {
			// The sessions that the other side resumes must not be lost with these.
			if err := forget(ctx); err != nil {
				return 0, err
			}
			return come(door)(ctx)
		})
	if err != nil {
		return nil, err
	}
	resumed := throughput(p, n, "F2-resumed", "the same, sessions resumed / full").atLeast(3)
	return []row{full, resumed}, nil
}
