package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// agentsThatReturn is the number of agents in F2 that reconnect at the same time.
const agentsThatReturn = 10_000

// Storm compares agents that connect, send one request and read one response with a loop that only
// accepts and completes handshakes, with new and with resumed TLS sessions. It also compares resumed with new sessions.
func Storm(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(agentsThatReturn, 50)
	server, err := newGathering(ctx, l, nodeAPI, n)
	if err != nil {
		return nil, err
	}
	defer server.end()
	bare, err := newGathering(ctx, l, bareTLS, n)
	if err != nil {
		return nil, err
	}
	defer bare.end()
	come := func(g gathering) lab.Side {
		return func(context.Context) (time.Duration, error) {
			t, err := g.crowd.Do("storm")
			return t.Took, err
		}
	}
	forget := func(context.Context) error {
		for _, g := range []gathering{server, bare} {
			if _, err := g.crowd.Do("forget"); err != nil {
				return err
			}
		}
		return nil
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, forget, come(server), come(bare))
	if err != nil {
		return nil, err
	}
	full := lab.Throughput(p, n, "F2", fmt.Sprintf("%d agents reconnect, full handshakes / bare accept loop", n)).AtLeast(0.8)
	full.Note = "handshakes a second to the first answer; both ends share the cores"
	nothing := func(context.Context) error { return nil }
	if p, err = l.Alternate(ctx, lab.LeastPairs, nothing, come(server), come(bare)); err != nil {
		return nil, err
	}
	resumed := lab.Throughput(p, n, "F2-resumed", "the same, both with resumed sessions").AtLeast(0.8)
	p, err = l.Alternate(ctx, lab.LeastPairs, nothing, come(server), func(ctx context.Context) (time.Duration, error) {
		// The agents of the peer resume other sessions, which must not be deleted with these.
		if err := forget(ctx); err != nil {
			return 0, err
		}
		return come(server)(ctx)
	})
	if err != nil {
		return nil, err
	}
	gain := lab.Throughput(p, n, "F2-gain", "the node API with resumed sessions / with full handshakes").AtLeast(2)
	return []lab.Row{full, resumed, gain}, nil
}
