package agent

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// A door that answers at once, with nothing or with what is known already, would
// otherwise be asked without end.
const politePause = time.Second

// poll waits for tasks until ctx ends.
func (n *node) poll(ctx context.Context) {
	var wait backoff
	for n.reachable(ctx) {
		began := n.Clock.Now()
		c := n.client.Load()
		task, ok, err := c.Wait(ctx, n.id())
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
		case ok && n.take(ctx, task):
		case n.Clock.Now().Sub(began) < politePause:
			pause(ctx, politePause)
		}
		wait.reset()
	}
}

// take hands a task to the runner; false means that nothing new came of it.
func (n *node) take(ctx context.Context, task wire.Signed) bool {
	a := n.runner.Take(task) //nolint:contextcheck // work outlives the poll that brought it
	if code := wire.CodeOf(a.Refusal); code == wire.KeyUnknown || code == wire.SignatureInvalid {
		// Perhaps a key of today, which this node has not heard of yet.
		if err := n.refreshTrust(ctx); err != nil {
			n.log.WarnContext(ctx, "trust not refreshed", "err", err)
		} else {
			a = n.runner.Take(task) //nolint:contextcheck // as above
		}
	}
	if a.Refusal != nil {
		n.log.WarnContext(ctx, "task refused", "task_id", a.Task, "code", wire.CodeOf(a.Refusal), "err", a.Refusal)
	}
	if a.Reply != nil {
		n.reply(a.Reply)
	}
	return !a.InHand && a.Refusal == nil && a.Reply == nil
}

// refreshTrust asks what to believe now.
func (n *node) refreshTrust(ctx context.Context) error {
	trust, err := n.client.Load().Trust(ctx)
	if err != nil {
		return err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	identity := *n.identity.Load()
	identity.Trust = trust
	if err := identity.Save(n.identityDir()); err != nil {
		return err
	}
	return n.become(&identity)
}

// reachable waits until the host is not cut off; false means that ctx ended.
func (n *node) reachable(ctx context.Context) bool {
	for {
		n.mu.Lock()
		open, cut := n.open, n.cut
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
