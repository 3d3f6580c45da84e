package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// WakeAll measures the time until the last of all waiting agents is notified.
func WakeAll(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(waitingAgents, 50)
	sides := map[string]lab.Side{}
	for _, kind := range []string{nodeAPI, bareTLS} {
		g, err := newGathering(ctx, l, kind, n)
		if err != nil {
			return nil, err
		}
		defer g.end()
		if _, err := g.crowd.Do("wait"); err != nil {
			return nil, err
		}
		sides[kind] = func(ctx context.Context) (time.Duration, error) {
			lab.Rest(ctx, l) // all wait again
			began, err := g.server.Do("answer")
			if err != nil {
				return 0, err
			}
			ended, err := g.crowd.Do("hinted")
			return time.Duration(ended.At - began.At), err
		}
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, sides[nodeAPI], sides[bareTLS])
	if err != nil {
		return nil, err
	}
	r := p.Row("F4", fmt.Sprintf("%d agents hinted, to the last / frames of %d bytes on bare TLS", n, frameSize), n).AtMost(2)
	r.Note = "from the first hint; one read of the mailboxes for each thousand nodes"
	return []lab.Row{r}, nil
}
