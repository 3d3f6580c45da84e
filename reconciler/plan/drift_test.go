package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// drifting is the open drift of an allocation whose node reported only that the state differs.
func drifting() []plan.OpenDrift {
	return []plan.OpenDrift{{
		ID: uuid.UUID{1}, OpenedAt: t0.Add(-time.Minute), Version: 1,
		Finding: plan.Finding{
			Difference: plan.Difference{Field: "state", Desired: "as ordered", Observed: "not as ordered", Cause: "changed on the node"},
			Policy:     plan.Heal, Owner: plan.OwnerPlatform, DeadlineAt: t0.Add(time.Minute),
		},
	}}
}

// broken is an active allocation whose node reports a difference.
func broken(message string, change ...func(*plan.DueAllocation)) plan.DueAllocation {
	d := plan.DueAllocation{
		ID: ids.Allocation{UUID: uuid.UUID{9}}, Desired: want(1), Observed: with(have(protocol.Broken, 1), func(h *plan.Observed) { h.Message = message }),
		Progress: &plan.Progress{State: plan.Active, Since: t0.Add(-time.Hour), Hourly: 500, Currency: "EUR"},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func noted(drift, ignore string) func(*plan.DueAllocation) {
	return func(d *plan.DueAllocation) { d.Desired.Drift, d.Desired.Ignore = drift, ignore }
}

func withDrift(s ...plan.OpenDrift) func(*plan.DueAllocation) {
	return func(d *plan.DueAllocation) { d.OpenDrift = s }
}

func suspended(until time.Time) func(*plan.DueAllocation) {
	return func(d *plan.DueAllocation) { d.Desired.Suspended = &plan.Suspension{Until: until} }
}

// by is the open drift of drifting after an actor has ignored it.
func by(who string, until time.Time) plan.OpenDrift {
	s := drifting()[0]
	s.Ignored, s.IgnoredBy, s.IgnoredReason, s.IgnoredUntil = true, who, "vendor visit", until
	s.Owner, s.DeadlineAt = plan.OwnerOperator, time.Time{}
	return s
}

// details lists the stored values of each move.
func details(p plan.Plan) string {
	var b strings.Builder
	for _, d := range p.Drift {
		fmt.Fprintf(&b, "%s %s: %q, not %q; %s by %s", d.Move, d.Field, d.Observed, d.Desired, d.Policy, d.Owner)
		if !d.DeadlineAt.IsZero() {
			fmt.Fprintf(&b, " in %s", d.DeadlineAt.Sub(t0))
		}
		if d.Ignored {
			fmt.Fprintf(&b, ", ignored by %s for %s", d.IgnoredBy, d.IgnoredUntil.Sub(t0))
		}
		if d.Cost > 0 {
			fmt.Fprintf(&b, ", costs %d %s", d.Cost, d.Currency)
		}
		if d.Reopened {
			b.WriteString(", reopened")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Each row is a node's report, the rules of policies and operators, and the resulting action and
// findings.
func TestDriftOfAllocations(t *testing.T) {
	t.Parallel()
	rules := func(r plan.Rule) plan.Limits {
		l := limits
		l.Drift = map[desired.Kind]plan.Rule{desired.KindAllocation: r}
		return l
	}
	cheap := func(d *plan.DueAllocation) { d.Progress.Hourly, d.Progress.Currency = 0, "" }
	for name, c := range map[string]struct {
		due    plan.DueAllocation
		limits plan.Limits
		plan   string
		writes string
	}{
		"each field is one finding": {
			broken("keys: 2 login keys, expected 1; access: GPU-1 is open to bob, expected no other account; access: GPU-2 is open to bob, expected no other account"), limits,
			"ensure@1", "opened keys: \"2 login keys\", not \"1\"; heal by platform in 2m0s, costs 500 EUR\n" +
				"opened access: \"GPU-1 is open to bob; GPU-2 is open to bob\", not \"no other account\"; heal by platform in 2m0s\n",
		},
		"an older agent names no field": {
			broken("account u has 2 login keys"), limits,
			"ensure@1", "opened state: \"account u has 2 login keys\", not \"as ordered\"; heal by platform in 2m0s, costs 500 EUR\n",
		},
		"open drift is written once": {broken("", withDrift(drifting()...), cheap), limits, "ensure@1", ""},
		"one field is mended, another breaks": {
			broken("process: 7 (xmrig), expected none", withDrift(drifting()...), cheap), limits, "ensure@1",
			"opened process: \"7 (xmrig)\", not \"none\"; heal by platform in 2m0s\nhealed state: \"not as ordered\", not \"as ordered\"; heal by platform in 1m0s\n",
		},
		"warn does nothing":       {broken("", cheap), rules(plan.Warn), "", "opened state: \"not as ordered\", not \"as ordered\"; warn by operator in 24h0m0s\n"},
		"ignore requests nothing": {broken("", cheap), rules(plan.Ignore), "check +2160h0m0s", "opened state: \"not as ordered\", not \"as ordered\"; ignore by operator, ignored by rule: policy for 2160h0m0s\n"},
		"the annotation rules":    {broken("", noted("warn", ""), cheap), rules(plan.Heal), "", "opened state: \"not as ordered\", not \"as ordered\"; warn by operator in 24h0m0s\n"},
		"an annotation of nonsense does not": {
			broken("", noted("perhaps", "/state for ever"), cheap), limits, "ensure@1", "opened state: \"not as ordered\", not \"as ordered\"; heal by platform in 2m0s\n",
		},
		"a field is ignored for a while": {
			broken("", noted("", "/state owner=ada until=2026-11-20T13:00:00Z"), cheap), limits, "check +1h0m0s",
			"opened state: \"not as ordered\", not \"as ordered\"; heal by operator, ignored by rule: ada for 1h0m0s\n",
		},
		"another field is not": {
			broken("", noted("", "/keys owner=ada until=2026-11-20T13:00:00Z"), cheap), limits, "ensure@1",
			"opened state: \"not as ordered\", not \"as ordered\"; heal by platform in 2m0s\n",
		},
		"the annotation has expired": {
			broken("", noted("", "/state owner=ada until=2026-11-20T12:00:00Z"), withDrift(by("rule: ada", t0)), cheap), limits, "ensure@1",
			"changed state: \"not as ordered\", not \"as ordered\"; heal by platform in 2m0s, reopened\n",
		},
		"ignored by an operator":         {broken("", withDrift(by("user:ada", t0.Add(time.Hour))), cheap), limits, "check +1h0m0s", ""},
		"a person's time is over":        {broken("", withDrift(by("user:ada", t0)), cheap), limits, "ensure@1", "changed state: \"not as ordered\", not \"as ordered\"; heal by platform in 2m0s, reopened\n"},
		"ignored, and then it is mended": {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: since(plan.Active, time.Hour), OpenDrift: []plan.OpenDrift{by("user:ada", t0.Add(time.Hour))}}, limits, "", "healed state: \"not as ordered\", not \"as ordered\"; heal by operator, ignored by user:ada for 1h0m0s\n"},
		"policy no longer ignores": {
			broken("", withDrift(by("rule: policy", t0.Add(time.Hour))), cheap), limits, "ensure@1",
			"changed state: \"not as ordered\", not \"as ordered\"; heal by platform in 2m0s, reopened\n",
		},
		"policy warns from now on": {
			broken("", withDrift(drifting()...), cheap), rules(plan.Warn), "",
			"changed state: \"not as ordered\", not \"as ordered\"; warn by operator in 24h0m0s\n",
		},
		"suspended": {
			broken("", suspended(t0.Add(time.Hour)), cheap), limits, "check +1h0m0s",
			"opened state: \"not as ordered\", not \"as ordered\"; heal by operator in 24h0m0s\n",
		},
		"suspended without an end": {broken("", suspended(time.Time{}), withDrift(drifting()...), cheap), limits, "", "changed state: \"not as ordered\", not \"as ordered\"; heal by operator in 24h0m0s\n"},
		"the suspension has ended": {broken("", suspended(t0), withDrift(drifting()...), cheap), limits, "ensure@1", ""},
		"released": {
			plan.DueAllocation{Desired: released(2), Observed: have(protocol.Broken, 1), Progress: since(plan.Releasing, 0), OpenDrift: drifting()},
			rules(plan.Warn), "release@2",
			"healed state: \"not as ordered\", not \"as ordered\"; heal by platform in 1m0s\n",
		},
		"never was right": {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Broken, 1), Progress: since(plan.Provisioning, 0)}, rules(plan.Ignore), "ensure@1", ""},
		"not heard": {
			broken("", withDrift(drifting()...), func(d *plan.DueAllocation) { d.Observed.StaleAt = t0 }), limits, "probe@1", "",
		},
		"at work": {broken("", withDrift(drifting()...), func(d *plan.DueAllocation) { d.Observed.Phase = protocol.Working }), limits, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p := plan.Allocations([]plan.DueAllocation{c.due}, c.limits, t0)
			did := ""
			for _, a := range p.Actions {
				did += fmt.Sprintf("%s@%d", a.Verb, a.Fence)
			}
			if did == "" {
				for _, n := range p.Next {
					did += fmt.Sprintf("check +%s", n.At.Sub(t0))
				}
			}
			if did != c.plan || details(p) != c.writes {
				t.Errorf("did %s, wanted %s\nwrites\n%swant\n%s", did, c.plan, details(p), c.writes)
			}
			// INV-16: after the result is stored, the next pass writes nothing.
			again := c.due
			again.OpenDrift = after(p, c.due.OpenDrift)
			if p := plan.Allocations([]plan.DueAllocation{again}, c.limits, t0); len(p.Drift) > 0 {
				t.Errorf("and again\n%s", details(p))
			}
		})
	}
}

// after returns the open drift after the moves of a plan.
func after(p plan.Plan, standing []plan.OpenDrift) (left []plan.OpenDrift) {
	moved := map[string]bool{}
	for _, d := range p.Drift {
		moved[d.Field] = true
		if d.Move != plan.Healed {
			left = append(left, d.OpenDrift)
		}
	}
	for _, s := range standing {
		if !moved[s.Field] {
			left = append(left, s)
		}
	}
	return left
}

// A suspension stops actions, but neither records nor releases that a user, a TTL or a balance
// requested.
func TestSuspended(t *testing.T) {
	t.Parallel()
	halt := &plan.Suspension{Until: t0.Add(time.Hour)}
	held := func(w *plan.Desired) *plan.Desired { w.Suspended = halt; return w }
	sku := func(change func(*plan.DueObject)) plan.DueObject {
		d := plan.DueObject{Kind: desired.KindSKU, Object: uuid.UUID{7}, Generation: 2, SpecHash: "2", AppliedGeneration: 1, AppliedHash: "1", Suspended: halt}
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		got  plan.Plan
		want string
	}{
		"nothing is put in place": {plan.Allocations([]plan.DueAllocation{{Desired: held(want(1)), Progress: since(plan.Requested, 0)}}, limits, t0), "; check +15m0s"},
		"an observation is recorded": {
			plan.Allocations([]plan.DueAllocation{{Desired: held(want(1)), Observed: have(protocol.Ready, 1), Progress: since(plan.Provisioning, 0)}}, limits, t0),
			"record node_ready@1 node reports ready; check +10s",
		},
		"a deadline is unchanged": {
			plan.Allocations([]plan.DueAllocation{{Desired: held(want(1)), Progress: since(plan.Provisioning, time.Hour)}}, limits, t0),
			"record exhausted@1 provisioning took too long; check +10s",
		},
		"a user's release goes on": {
			plan.Allocations([]plan.DueAllocation{{Desired: held(released(2)), Observed: have(protocol.Ready, 1), Progress: since(plan.Releasing, 0)}}, limits, t0),
			"release@2 released; check +10s",
		},
		"a lease ends": {
			plan.Allocations([]plan.DueAllocation{{Desired: held(want(1)), Observed: have(protocol.Ready, 1), Progress: &plan.Progress{State: plan.Active, ExpiresAt: t0}}}, limits, t0),
			"record expired@1 TTL expired; check +10s",
		},
		"a declaration waits":        {plan.Objects([]plan.DueObject{sku(func(*plan.DueObject) {})}, limits, t0), "; check +1h0m0s"},
		"it ends by itself":          {plan.Objects([]plan.DueObject{sku(func(d *plan.DueObject) { d.Suspended = &plan.Suspension{Until: t0} })}, limits, t0), "ensure@0 declared; check +10s"},
		"it has no end":              {plan.Objects([]plan.DueObject{sku(func(d *plan.DueObject) { d.Suspended = &plan.Suspension{} })}, limits, t0), ""},
		"silence is recorded":        {plan.Objects([]plan.DueObject{held1(node(t0, true), halt)}, limits, t0), "record reports_stale@0 reports have stopped; check +10s"},
		"a node is not retired":      {plan.Objects([]plan.DueObject{held1(leaving(false), halt)}, limits, t0), "; check +1h0m0s"},
		"unless a user requested it": {plan.Objects([]plan.DueObject{held1(leaving(true), halt)}, limits, t0), "release@0 no longer desired; check +10s"},
	} {
		if got := show(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func held1(d plan.DueObject, s *plan.Suspension) plan.DueObject {
	d.Object, d.Suspended = uuid.UUID{7}, s
	return d
}

// leaving is a node that is on the market and no longer declared.
func leaving(byAPI bool) plan.DueObject {
	d := node(t0.Add(2*time.Hour), true)
	d.Reports, d.Node = nil, &plan.NodeState{OnMarket: true, ByAPI: byAPI}
	d.Generation, d.Deleted = 2, true
	return d
}

func machine(change func(*plan.DueObject)) plan.DueObject {
	d := node(t0.Add(time.Hour), true)
	d.Object = uuid.UUID{7}
	d.Node = &plan.NodeState{Spec: desired.Node{GPUs: 2}, Model: "H100", Price: 299, Currency: "EUR", OnMarket: true, Devices: []plan.Device{{Model: "H100", Serial: "b"}, {Model: "H100", Serial: "a"}}}
	change(&d)
	return d
}

func TestDriftOfNodes(t *testing.T) {
	t.Parallel()
	missing := plan.OpenDrift{OpenedAt: t0, Version: 1, Finding: plan.Finding{
		Difference: plan.Difference{Field: "gpus", Desired: "2", Observed: "1", Cause: "the hardware differs from the desired node", Cost: 299, Currency: "EUR"},
		Policy:     plan.Heal, Owner: plan.OwnerOperator, DeadlineAt: t0.Add(time.Hour),
	}}
	spec := plan.OpenDrift{OpenedAt: t0, Version: 1, Finding: plan.Finding{
		Difference: plan.Difference{Field: "spec.cordoned", Desired: "true", Observed: "false", Cause: "edited"}, Policy: plan.Heal, Owner: plan.OwnerPlatform, DeadlineAt: t0.Add(time.Minute),
	}}
	for name, c := range map[string]struct {
		due    plan.DueObject
		writes string
	}{
		"as declared":        {machine(func(*plan.DueObject) {}), ""},
		"one GPU is missing": {machine(func(d *plan.DueObject) { d.Node.Devices = d.Node.Devices[:1] }), "opened gpus: \"1\", not \"2\"; heal by operator in 24h0m0s, costs 299 EUR\n"},
		"all are missing":    {machine(func(d *plan.DueObject) { d.Node.Devices = []plan.Device{} }), "opened gpus: \"0\", not \"2\"; heal by operator in 24h0m0s, costs 598 EUR\n"},
		"one too many":       {machine(func(d *plan.DueObject) { d.Node.Spec.GPUs = 1 }), "opened gpus: \"2\", not \"1\"; heal by operator in 24h0m0s\n"},
		"another model":      {machine(func(d *plan.DueObject) { d.Node.Model = "H200" }), "opened model: \"2 H100\", not \"H200\"; heal by operator in 24h0m0s, costs 598 EUR\n"},
		"no SKU to compare":  {machine(func(d *plan.DueObject) { d.Node.Model, d.Node.Price = "", 0 }), ""},
		"the same serials":   {machine(func(d *plan.DueObject) { d.Node.Spec.Serials = []string{"a", "b"} }), ""},
		"another serial":     {machine(func(d *plan.DueObject) { d.Node.Spec.Serials = []string{"a", "c"} }), "opened serials: \"a, b\", not \"a, c\"; heal by operator in 24h0m0s\n"},
		"not whole":          {machine(func(d *plan.DueObject) { d.Node.Devices = nil }), ""},
		"not whole, still":   {machine(func(d *plan.DueObject) { d.Node.Devices, d.OpenDrift = nil, []plan.OpenDrift{missing} }), ""},
		"not heard, still": {machine(func(d *plan.DueObject) {
			d.Reports.StaleAt, d.Reports.Reachable, d.OpenDrift = t0, false, []plan.OpenDrift{missing}
		}), ""},
		"plugged in again":                     {machine(func(d *plan.DueObject) { d.OpenDrift = []plan.OpenDrift{missing} }), "healed gpus: \"1\", not \"2\"; heal by operator in 1h0m0s, costs 299 EUR\n"},
		"no longer declared":                   {machine(func(d *plan.DueObject) { d.Deleted, d.Gone, d.OpenDrift = true, true, []plan.OpenDrift{missing} }), "healed gpus: \"1\", not \"2\"; heal by operator in 1h0m0s, costs 299 EUR\n"},
		"what a job found is its own to close": {machine(func(d *plan.DueObject) { d.OpenDrift = []plan.OpenDrift{spec} }), ""},
	} {
		p := plan.Objects([]plan.DueObject{c.due}, limits, t0)
		if got := details(p); got != c.writes {
			t.Errorf("%s: writes\n%swant\n%s", name, got, c.writes)
		}
		again := c.due
		again.OpenDrift = after(p, c.due.OpenDrift)
		if p := plan.Objects([]plan.DueObject{again}, limits, t0); len(p.Drift) > 0 {
			t.Errorf("%s, and again\n%s", name, details(p))
		}
	}
	// Drift of a stored spec is healed by applying the object again.
	due := machine(func(d *plan.DueObject) {
		d.OpenDrift, d.Node.Spec.Cordoned, d.Node.OnMarket, d.Source = []plan.OpenDrift{spec}, true, true, "fleet"
	})
	if p := plan.Objects([]plan.DueObject{due}, limits, t0); len(p.Actions) != 1 || p.Actions[0].Reason != "drifted: spec.cordoned" || !p.Actions[0].Automatic || p.Actions[0].Source != "" {
		t.Errorf("planned %+v", p.Actions)
	}
	due.Drift = "warn"
	if p := plan.Objects([]plan.DueObject{due}, limits, t0); len(p.Actions) != 0 || len(p.Drift) != 1 || p.Drift[0].Owner != plan.OwnerOperator {
		t.Errorf("with warn, planned %+v, %+v", p.Actions, p.Drift)
	}
}
