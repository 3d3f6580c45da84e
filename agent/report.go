package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/hook"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	tidyEvery = time.Hour
	// renewEvery is between two tries; from half life on there are hours for them.
	renewEvery = time.Minute
)

// beat looks whether anything is due or the host has changed.
func (n *node) beat(ctx context.Context) {
	now := n.Clock.Now()
	stamp, err := n.driver.Stamp()
	if err != nil {
		stamp = "unreadable" // the report says why
	}
	n.mu.Lock()
	moved := stamp != n.heard.stamp
	n.heard.stamp = stamp
	tidy := !now.Before(n.heard.tidyAt)
	if tidy {
		n.heard.tidyAt = now.Add(tidyEvery)
	}
	n.mu.Unlock()

	if moved {
		if cut, err := n.driver.Partitioned(); err == nil {
			n.setCut(ctx, cut)
		}
	}
	if tidy {
		if err := n.runner.Forget(); err != nil {
			n.log.WarnContext(ctx, "journal not tidied", "err", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.talk.life = ctx //nolint:fatcontext // kept, not nested: calls begun later live as long as this node
	if moved {
		n.talk.reportAt = time.Time{}
	}
	if !now.Before(n.identity.Load().RenewAt(n.share)) && !now.Before(n.heard.renewTry) {
		n.heard.renewTry = now.Add(renewEvery)
		n.talk.renewing = true
	}
	n.startTalking(now)
}

// setCut hangs up when the host gets cut off, and wakes the poll when it is back.
func (n *node) setCut(ctx context.Context, cut bool) {
	n.mu.Lock()
	if cut == n.cut {
		n.mu.Unlock()
		return
	}
	n.cut = cut
	if cut {
		n.open = make(chan struct{})
	} else {
		close(n.open)
		n.talk.notTill, n.talk.wait = time.Time{}, backoff{} // what failed, failed for the cut
	}
	c := n.client.Load()
	n.mu.Unlock()
	c.Cut(cut)
	n.log.WarnContext(ctx, "partition", "cut_off", cut)
}

// report sends what the node sees of itself now.
func (n *node) report(ctx context.Context) error {
	r := n.look(ctx)
	n.mu.Lock()
	n.talk.sequence++
	r.Sequence = n.talk.sequence
	n.mu.Unlock()
	reply, err := n.client.Load().Report(ctx, n.id(), r)
	if reply.ReportEvery > 0 {
		n.period.Store(int64(reply.ReportEvery))
	}
	if reply.Renew { // the same goroutine says it next
		n.mu.Lock()
		n.talk.renewing = true
		n.mu.Unlock()
	}
	if client.CodeOf(err) == string(errs.StaleReport) {
		// Somebody reported as this node with a later boot: a disk was restored,
		// or copied. Saying it more often does not make it newer.
		n.log.ErrorContext(ctx, "report is older than what the control plane has", "boot", r.Boot, "sequence", r.Sequence)
		return nil
	}
	if err != nil && final(err) {
		n.log.ErrorContext(ctx, "report refused", "err", err)
		return nil
	}
	return err
}

// look reads the host. What could not be read makes the report incomplete.
func (n *node) look(ctx context.Context) wire.Report {
	r := wire.Report{
		Capability: wire.Capability, Agent: n.Version, BootID: n.bootID, Boot: n.boot, Complete: true,
		Inventory: wire.Inventory{Hostname: n.Hostname, GPUs: []wire.GPU{}}, Allocations: []wire.AllocationSeen{},
	}
	miss := func(what string, err error) {
		r.Complete = false
		r.Missing = append(r.Missing, what+": "+err.Error())
	}
	inventory, err := n.driver.Inventory(ctx)
	if err != nil {
		miss("inventory", err)
	} else {
		r.Inventory = inventory
	}
	if n.runner.Journal == nil {
		miss("journal", fmt.Errorf("%s", wire.JournalLost))
	}
	if n.runner.Host == nil {
		r.Refuses = []wire.Type{wire.ProvisionUser, wire.RevokeUser}
		for _, g := range r.Inventory.GPUs { // nothing was handed out here
			if g.Processes > 0 {
				r.Foreign = append(r.Foreign, fmt.Sprintf("%s: %d processes that no task accounts for", g.UUID, g.Processes))
			}
		}
		return r
	}
	state, err := n.lookAtHost(ctx)
	if err != nil {
		miss("host", err)
		return r
	}
	r.Allocations, r.Foreign = n.runner.Observe(state), n.runner.Foreign(state)
	return r
}

// lookWithin keeps a host that hangs from silencing the agent.
const lookWithin = 10 * time.Second

func (n *node) lookAtHost(ctx context.Context) (hook.State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return n.runner.Host.Look(ctx)
}
