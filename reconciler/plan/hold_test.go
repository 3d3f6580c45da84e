package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Each row contains a node's operator holds, the progress of its drain, and the one transition that follows.
func TestHoldsOfANodeAreFollowed(t *testing.T) {
	t.Parallel()
	later, past := t0.Add(time.Hour), t0.Add(-time.Second)
	for name, c := range map[string]struct {
		h    plan.Holding
		want string
	}{
		"no hold":                     {plan.Holding{Lifecycle: "active"}, ""},
		"a cordon runs":               {plan.Holding{Lifecycle: "active", NextHoldEnd: later}, "check +1h0m0s"},
		"a cordon has ended":          {plan.Holding{Lifecycle: "active", NextHoldEnd: past}, "hold_expired"},
		"a drain begins":              {plan.Holding{Lifecycle: "active", EvictAt: later, Occupied: true}, "drain_started"},
		"a drain of a silent node":    {plan.Holding{Lifecycle: "offline", EvictAt: later, Occupied: true}, "drain_started"},
		"an allocation is left":       {plan.Holding{Lifecycle: "draining", EvictAt: past, Occupied: true}, ""},
		"no allocation is left":       {plan.Holding{Lifecycle: "draining", EvictAt: later}, "drain_completed"},
		"drained stays drained":       {plan.Holding{Lifecycle: "drained", EvictAt: past}, ""},
		"cancelled":                   {plan.Holding{Lifecycle: "draining", Occupied: true}, "drain_cancelled"},
		"cancelled when it was empty": {plan.Holding{Lifecycle: "drained"}, "drain_cancelled"},
		"it leaves the fleet":         {plan.Holding{Lifecycle: "draining", Retiring: true, EvictAt: later}, ""},
		"it has never been active":    {plan.Holding{Lifecycle: "declared", EvictAt: later}, ""},
	} {
		due := plan.DueObject{Kind: desired.KindNode, Object: uuid.New(), Generation: 1, AppliedGeneration: 1, Holding: &c.h}
		p := plan.Objects([]plan.DueObject{due}, limits, t0)
		got := ""
		for _, a := range p.Actions {
			got = string(a.Event)
			if a.Reason == "" || a.Verb != plan.Record {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if got == "" && len(p.Next) > 0 {
			got = fmt.Sprintf("check +%s", p.Next[0].At.Sub(t0))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The tenant of an allocation on a draining node is notified once for each new deadline or reason,
// and of the cancellation. The release at the deadline alone counts against the breaker.
func TestLeavingCases(t *testing.T) {
	t.Parallel()
	word := func(in time.Duration, why string) *plan.Eviction {
		return &plan.Eviction{At: t0.Add(in), By: "user:ada", Why: why}
	}
	told := func(s plan.State, l *plan.Eviction) *plan.Progress {
		p := since(s, 0)
		if l != nil {
			p.Eviction = *l
		}
		return p
	}
	for name, c := range map[string]struct {
		due       plan.DueAllocation
		want      plan.Trigger
		automatic bool
		look      time.Duration
	}{
		"told":                        {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, nil), Eviction: word(time.Hour, "swap")}, plan.EvictionScheduled, false, 10 * time.Second},
		"waits for the deadline":      {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, word(time.Hour, "swap")), Eviction: word(time.Hour, "swap")}, "", false, time.Hour},
		"another deadline":            {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, word(time.Hour, "swap")), Eviction: word(time.Minute, "swap")}, plan.EvictionScheduled, false, 10 * time.Second},
		"the deadline":                {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, word(0, "swap")), Eviction: word(0, "swap")}, plan.EvictionDue, true, 10 * time.Second},
		"the deadline, not announced": {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, nil), Eviction: word(0, "swap")}, plan.EvictionScheduled, false, 10 * time.Second},
		"the deadline, node silent":   {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.StaleAt = t0 }), Progress: told(plan.Active, word(0, "swap")), Eviction: word(0, "swap")}, plan.EvictionDue, true, 10 * time.Second},
		"cancelled":                   {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Active, word(time.Hour, "swap"))}, plan.EvictionCancelled, false, 10 * time.Second},
		"it leaves by itself":         {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Gone, 2), Progress: told(plan.Releasing, word(0, "swap")), Eviction: word(0, "swap")}, plan.CleanupProved, false, 10 * time.Second},
		"ready is recorded first":     {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: told(plan.Provisioning, nil), Eviction: word(time.Hour, "swap")}, plan.NodeReady, false, 10 * time.Second},
	} {
		p := plan.Allocations([]plan.DueAllocation{c.due}, limits, t0)
		var got plan.Trigger
		automatic := false
		for _, a := range p.Actions {
			got, automatic = a.Event, a.Automatic
		}
		if got != c.want || automatic != c.automatic || len(p.Next) == 0 || p.Next[0].At.Sub(t0) != c.look {
			t.Errorf("%s: %q evaluated %t, next %+v; want %q evaluated %t in %s", name, got, automatic, p.Next, c.want, c.automatic, c.look)
		}
	}
}
