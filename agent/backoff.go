package agent

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstDelay = 200 * time.Millisecond
	// maxDelay is short, so that a fleet reconnects soon after the control plane returns, and long
	// enough that a thousand agents do not overload a control plane that starts.
	maxDelay = 10 * time.Second
)

// backoff doubles with each failure. Half of each delay is random, so that a
// fleet that lost its control plane at one moment does not return at one.
type backoff struct{ failures int }

func (b *backoff) next() time.Duration {
	delay := maxDelay
	if b.failures < 6 { // 200 ms doubled six times is above the maximum
		delay = min(firstDelay<<b.failures, maxDelay)
	}
	b.failures++
	return delay/2 + rand.N(delay/2) //nolint:gosec // spreads load, guards nothing
}

func (b *backoff) reset() { b.failures = 0 }

// pause waits; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
