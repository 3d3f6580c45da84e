package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/protocol"
)

// renewEvery is the time between two attempts to renew. Hours remain for attempts after half of the
// lifetime.
const renewEvery = time.Minute

// beat checks whether a report, a renewal or another duty is due.
func (n *node) beat(ctx context.Context) {
	if n.local != nil {
		n.local.Beat(ctx) // first: a partitioned node must not send
	}
	now := n.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outbox.life = ctx //nolint:fatcontext // kept, not nested: calls begun later live as long as this node
	if !now.Before(n.identity.Load().RenewAt(n.share)) && !now.Before(n.renewTry) {
		n.renewTry = now.Add(renewEvery)
		n.outbox.renewing = true
	}
	n.startTalking(now)
}

// setCut closes the connections at the start of a simulated partition, and notifies the poll at its
// end.
func (n *node) setCut(ctx context.Context, cut bool) {
	n.mu.Lock()
	if cut == n.cut {
		n.mu.Unlock()
		return
	}
	n.cut = cut
	if cut {
		n.free = make(chan struct{})
	} else {
		close(n.free)
		n.outbox.retryAt, n.outbox.wait = time.Time{}, backoff{} // what failed, failed for the cut
	}
	c := n.client.Load()
	n.mu.Unlock()
	c.Cut(cut)
	n.relay.Cut(cut)
	n.log.WarnContext(ctx, "partition", "cut_off", cut)
}

// report sends what the node sees of itself now.
func (n *node) report(ctx context.Context) error {
	r, err := n.worker.Inspect(ctx)
	if err != nil {
		err = fmt.Errorf("reading the state of the node: %w", err)
		n.record.reported(r, n.Clock.Now(), err)
		return err
	}
	r.Capability, r.Agent = protocol.Capability, n.Version
	reply, err := n.client.Load().Report(ctx, n.id(), r)
	n.record.reported(r, n.Clock.Now(), err)
	if reply.ReportEvery > 0 {
		n.period.Store(int64(reply.ReportEvery))
	}
	if reply.Renew { // the same goroutine sends it next
		n.mu.Lock()
		n.outbox.renewing = true
		n.mu.Unlock()
	}
	if client.CodeOf(err) == string(errs.StaleReport) {
		// Another process has reported as this node with a later boot: the disk is a restored or copied
		// one. Repeating the report does not make it newer.
		n.log.ErrorContext(ctx, "the control plane has a newer report", "boot", r.Boot, "sequence", r.Sequence)
		return n.worker.HandleAck(ctx, helper.ReportAck{Signed: client.AckOf(err)})
	}
	if err != nil && final(err) {
		n.log.ErrorContext(ctx, "report rejected", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	return n.worker.HandleAck(ctx, helper.ReportAck{Signed: reply.Ack, Version: n.Version})
}
