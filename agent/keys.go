package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/helper"
)

const (
	// renewBefore is half of the life of an access key: an outage of half an hour interrupts no mount.
	renewBefore = 30 * time.Minute
	// renewSpread spreads the renewals of a fleet whose control plane has returned.
	renewSpread = 5 * time.Minute
	// keysEvery is the interval at which the wants are read without an event.
	keysEvery = 5 * time.Minute
	// resolveWithin limits the resolution of a name.
	resolveWithin = 5 * time.Second
)

// keysWanted makes the node request access keys now: a step waits for them.
func (n *node) keysWanted() {
	n.enqueue(func(t *outbox) { t.keysAt, t.keysWait = time.Time{}, backoff{} })
}

// requestKeys begins to request the access keys of mounts that have none, or whose keys expire soon. It delays no other
// message: the resolution of a name may last seconds, and a failure has a backoff of its own.
func (n *node) requestKeys(ctx context.Context) error {
	now := n.Clock.Now()
	n.mu.Lock()
	due := !n.outbox.keysBusy && !now.Before(n.outbox.keysAt)
	if due {
		n.outbox.keysAt, n.outbox.keysBusy = now.Add(keysEvery), true
	}
	n.mu.Unlock()
	if due {
		n.streams.Go(func() { n.requestedKeys(n.grantKeys(ctx, now)) })
	}
	return nil
}

// requestedKeys ends a request for access keys. The sender starts again if one is due by now.
func (n *node) requestedKeys(next time.Time, err error) {
	n.enqueue(func(t *outbox) {
		if t.keysBusy = false; err != nil {
			next = n.Clock.Now().Add(t.keysWait.next())
			n.log.Warn("access keys of mounts not renewed", "err", err, "again_at", next)
		} else {
			t.keysWait.reset()
		}
		if next.Before(t.keysAt) {
			t.keysAt = next
		}
	})
}

// grantKeys returns when it must be called next.
func (n *node) grantKeys(ctx context.Context, now time.Time) (next time.Time, failed error) {
	next = now.Add(keysEvery)
	wants, err := n.worker.KeyWants(ctx)
	if err != nil {
		return next, fmt.Errorf("reading which mounts need access keys: %w", err)
	}
	for _, want := range wants {
		renewAt := want.ExpiresAt.Add(-renewBefore)
		if !now.Before(renewAt) {
			g := n.grant(ctx, want)
			if err := n.worker.GrantKeys(ctx, g); err != nil {
				failed = err
			}
			switch {
			case g.Rejected:
				continue
			case g.Keys == nil:
				failed = fmt.Errorf("allocation %s: %s", want.Allocation, g.Failure)
				continue
			}
			renewAt = g.Keys.ExpiresAt.Add(-renewBefore)
		}
		const least = time.Minute                                                                      // between two requests, also for keys with a short life
		if renewAt = maxTime(renewAt, now.Add(least)).Add(rand.N(renewSpread)); renewAt.Before(next) { //nolint:gosec // spreads load
			next = renewAt
		}
	}
	return next, failed
}

// grant requests the keys of one allocation, and the addresses of its endpoint.
func (n *node) grant(ctx context.Context, want helper.KeyWant) helper.KeyGrant {
	g := helper.KeyGrant{Allocation: want.Allocation}
	if _, err := netip.ParseAddr(want.Name); err != nil {
		within, cancel := context.WithTimeout(ctx, resolveWithin)
		defer cancel()
		if g.Addresses, err = net.DefaultResolver.LookupNetIP(within, "ip", want.Name); err != nil {
			g.Failure = fmt.Sprintf("the name of the endpoint is not resolved: %v", err)
			return g
		}
	}
	keys, err := n.client.Load().StorageKey(ctx, n.id(), want.Allocation)
	if err != nil {
		problem, is := errors.AsType[*client.ProblemError](err)
		g.Failure, g.Rejected = err.Error(), is && problem.Status == http.StatusNotFound
		return g
	}
	g.Keys = &keys
	return g
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
