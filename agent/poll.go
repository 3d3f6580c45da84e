package agent

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/protocol"
)

// Without the pause a server that responds at once, with nothing or with a task that the agent has,
// would be polled in a loop.
const politePause = time.Second

// poll waits for tasks until ctx ends.
func (n *node) poll(ctx context.Context) {
	var wait backoff
	for n.reachable(ctx) {
		began := n.Clock.Now()
		n.mu.Lock()
		n.polledAt = began
		n.mu.Unlock()
		c := n.client.Load()
		delivery, err := c.Wait(ctx, n.id())
		if c != n.client.Load() {
			c.Release() // replaced while it waited
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			delay := wait.next()
			n.log.WarnContext(ctx, "poll failed", "err", err, "again_in", delay)
			pause(ctx, delay)
			continue
		case n.deliver(ctx, delivery):
		case n.Clock.Now().Sub(began) < politePause:
			pause(ctx, politePause)
		}
		wait.reset()
	}
}

// deliver passes on what a poll has received. It returns false if that started nothing new. A stream has a goroutine, so
// that no task waits for it.
func (n *node) deliver(ctx context.Context, d protocol.Delivery) (began bool) {
	for _, signed := range d.Relays {
		n.streams.Go(func() { n.openStream(ctx, signed) })
	}
	return d.HasTask() && n.receive(ctx, d.Signed) || len(d.Relays) > 0
}

func (n *node) openStream(ctx context.Context, signed protocol.Signed) {
	err := n.relay.Open(ctx, signed)
	if code := protocol.CodeOf(err); code == protocol.KeyUnknown || code == protocol.SignatureInvalid {
		if refused := n.refreshTrust(ctx); refused != nil {
			n.log.WarnContext(ctx, "trust not refreshed", "err", refused)
		} else {
			err = n.relay.Open(ctx, signed)
		}
	}
	if err != nil && protocol.CodeOf(err) != protocol.Replayed { // the control plane repeats requests
		n.log.WarnContext(ctx, "request for a stream rejected", "err", err)
	}
}

// receive passes a task to the helper. It returns false if that started nothing new.
func (n *node) receive(ctx context.Context, task protocol.Signed) bool {
	return n.stage(ctx, task) || n.handOver(ctx, task)
}

func (n *node) handOver(ctx context.Context, task protocol.Signed) bool {
	failpoint.Hit("agent.network.before_take")
	a, err := n.worker.Receive(ctx, task)
	// After a crash here the helper has the task. The server sends it again, and the helper answers
	// from its journal.
	failpoint.Hit("agent.network.after_take")
	if code := protocol.CodeOf(a.Rejection); code == protocol.KeyUnknown || code == protocol.SignatureInvalid {
		// The task may be signed with a new key that this node has not received yet.
		if refused := n.refreshTrust(ctx); refused != nil {
			n.log.WarnContext(ctx, "trust not refreshed", "err", refused)
		} else {
			a, err = n.worker.Receive(ctx, task)
		}
	}
	if err != nil {
		n.log.WarnContext(ctx, "task not accepted; it will be delivered again", "err", err)
		return false
	}
	if a.Rejection != nil {
		n.log.WarnContext(ctx, "task rejected", "task_id", a.Task, "code", protocol.CodeOf(a.Rejection), "err", a.Rejection)
	}
	if a.Reply != nil {
		n.reply(a.Reply)
		n.record.ended(a.Reply)
	} else if !a.InHand {
		n.record.begun(a.Task, n.Clock.Now())
	}
	return !a.InHand && a.Rejection == nil && a.Reply == nil
}

// refreshTrust reads the present trust of the control plane.
func (n *node) refreshTrust(ctx context.Context) error {
	trust, err := n.client.Load().Trust(ctx)
	if err != nil {
		return err
	}
	if err := n.trust(trust); err != nil {
		return err
	}
	return n.updateTrust(ctx)
}

func (n *node) trust(trust protocol.Trust) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	identity := *n.identity.Load()
	identity.Trust = trust
	if err := identity.Save(n.identityDir()); err != nil {
		return err
	}
	return n.become(&identity)
}

// updateTrust hands the worker what the control plane last stated about its keys.
func (n *node) updateTrust(ctx context.Context) error {
	trust := n.identity.Load().Trust
	if len(trust.Releases) > 0 {
		if err := n.worker.UpdateReleaseKeys(ctx, trust.Releases); err != nil {
			// Tasks do not depend on it; updates of the agent do, and are rejected with a code.
			n.log.WarnContext(ctx, "release keys not changed", "err", err)
		}
	}
	if len(trust.Sets) == 0 {
		return nil
	}
	return n.worker.UpdateTrust(ctx, trust.Sets)
}

// reachable waits until the node is not partitioned; false means that ctx ended.
func (n *node) reachable(ctx context.Context) bool {
	for {
		n.mu.Lock()
		open, cut := n.free, n.cut
		n.mu.Unlock()
		if !cut {
			return ctx.Err() == nil
		}
		select {
		case <-open:
		case <-ctx.Done():
			return false
		}
	}
}
