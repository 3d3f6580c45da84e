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

func want(fence int64) *plan.Desired {
	return &plan.Desired{Generation: fence, Fence: fence, SpecHash: fmt.Sprint(fence)}
}

func released(fence int64) *plan.Desired {
	w := want(fence)
	w.Released = true
	return w
}

func have(p protocol.Phase, fence int64) *plan.Observed {
	return &plan.Observed{Phase: p, Fence: fence, SpecHash: fmt.Sprint(fence), Complete: true, StaleAt: t0.Add(time.Minute), Proven: p == protocol.Gone}
}

func since(s plan.State, ago time.Duration) *plan.Progress {
	return &plan.Progress{State: s, Since: t0.Add(-ago)}
}

func with(h *plan.Observed, change func(*plan.Observed)) *plan.Observed {
	change(h)
	return h
}

// Each row is a state and the complete result: the action with its fence and reason, the time of
// the next check, and the drift that opens or closes.
func TestAllocationCases(t *testing.T) {
	t.Parallel()

	failed := func(n int) func(*plan.Observed) { return func(h *plan.Observed) { h.FailedFence, h.Failures = 1, n } }
	for name, c := range map[string]struct {
		due  plan.DueAllocation
		want string
	}{
		"first task":                      {plan.DueAllocation{Desired: want(1), Progress: since(plan.Requested, 0)}, "ensure@1 never reported; check +10s"},
		"already requested":               {plan.DueAllocation{Desired: want(1), Progress: since(plan.Requested, 0), Previous: plan.Previous{Verb: plan.Ensure, Fence: 1, Generation: 1, Until: t0.Add(4 * time.Second)}}, "; check +4s"},
		"requested, but it failed":        {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Gone, 0), failed(1)), Progress: since(plan.Provisioning, 0), Previous: plan.Previous{Verb: plan.Ensure, Fence: 1, Generation: 1, Until: t0.Add(4 * time.Second)}}, "ensure@1 newer fence; check +10s"},
		"failed twice, and too early":     {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Gone, 0), failed(2)), Progress: since(plan.Provisioning, 0), Previous: plan.Previous{Verb: plan.Ensure, Fence: 1, Generation: 1, Failures: 1, Until: t0.Add(4 * time.Second)}}, "; check +4s"},
		"failed twice, a while ago":       {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Gone, 0), failed(2)), Progress: since(plan.Provisioning, 0), Previous: plan.Previous{Verb: plan.Ensure, Fence: 1, Generation: 1, Failures: 1, Until: t0}}, "ensure@1 newer fence; check +10s"},
		"at work":                         {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Working, 1), Progress: since(plan.Provisioning, 0)}, "; check +15m0s"},
		"at work, as requested":           {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Working, 1), Progress: since(plan.Provisioning, 0), Previous: plan.Previous{Verb: plan.Ensure, Fence: 1, Generation: 1, Until: t0.Add(4 * time.Second)}}, "; check +4s"},
		"ready is recorded":               {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: since(plan.Provisioning, 0)}, "record node_ready@1 node reports ready; check +10s"},
		"ready at an older fence":         {plan.DueAllocation{Desired: want(2), Observed: have(protocol.Ready, 1), Progress: since(plan.Provisioning, 0)}, "ensure@2 newer fence; check +10s"},
		"attempts used up":                {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Gone, 0), failed(3)), Progress: since(plan.Provisioning, 0)}, "record exhausted@1 provisioning attempts used up; check +10s"},
		"failures of an older fence":      {plan.DueAllocation{Desired: want(2), Observed: with(have(protocol.Gone, 0), failed(3)), Progress: since(plan.Provisioning, 0)}, "ensure@2 newer fence; check +10s"},
		"provisioning too long":           {plan.DueAllocation{Desired: want(1), Progress: since(plan.Provisioning, 15*time.Minute)}, "record exhausted@1 provisioning took too long; check +10s"},
		"at rest":                         {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: since(plan.Active, time.Hour)}, ""},
		"at rest on a silent node":        {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.StaleAt = t0 }), Progress: since(plan.Active, time.Hour)}, ""},
		"a TTL that ends later":           {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: &plan.Progress{State: plan.Active, ExpiresAt: t0.Add(time.Hour)}}, "; check +1h0m0s"},
		"lease ended":                     {plan.DueAllocation{Desired: want(1), Observed: have(protocol.Ready, 1), Progress: &plan.Progress{State: plan.Active, ExpiresAt: t0}}, "record expired@1 TTL expired; check +10s"},
		"drifted":                         {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Broken, 1), func(h *plan.Observed) { h.Message = "keys" }), Progress: since(plan.Active, 0)}, "ensure@1 drifted: keys; check +10s; drift opened: state"},
		"still drifting":                  {plan.DueAllocation{OpenDrift: drifting(), Desired: want(1), Observed: have(protocol.Broken, 1), Progress: since(plan.Active, 0)}, "ensure@1 drifted: not as ordered; check +10s"},
		"healed":                          {plan.DueAllocation{OpenDrift: drifting(), Desired: want(1), Observed: have(protocol.Ready, 1), Progress: since(plan.Active, 0)}, "; drift healed: state"},
		"lost by its node":                {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Gone, 1), func(h *plan.Observed) { h.Proven = false }), Progress: since(plan.Active, 0)}, "ensure@1 drifted: the node does not report it; check +10s; drift opened: presence"},
		"another spec at this fence":      {plan.DueAllocation{Desired: want(1), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.SpecHash = "?" }), Progress: since(plan.Active, 0)}, "ensure@1 spec differs; check +10s"},
		"release":                         {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Ready, 1), Progress: since(plan.Releasing, 0)}, "release@2 released; check +10s"},
		"release before any report":       {plan.DueAllocation{Desired: released(2), Progress: since(plan.Releasing, 0)}, "release@2 released; check +10s"},
		"release on a silent node":        {plan.DueAllocation{Desired: released(2), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.StaleAt = t0 }), Progress: since(plan.Releasing, 0)}, "probe@2 report is stale or incomplete; check +10s"},
		"release on half a report":        {plan.DueAllocation{Desired: released(2), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.Complete = false }), Progress: since(plan.Releasing, 0)}, "release@2 released; its report is stale or incomplete; check +10s"},
		"overdue, on a silent node":       {plan.DueAllocation{Desired: released(2), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.StaleAt = t0 }), Progress: since(plan.ReleaseFailed, time.Hour)}, "release@2 released; its report is stale or incomplete; check +10s"},
		"a leak on half a report":         {plan.DueAllocation{Observed: with(have(protocol.Ready, 3), func(h *plan.Observed) { h.Complete = false })}, "probe@3 report is stale or incomplete; check +10s"},
		"gone, proved":                    {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Gone, 2), Progress: since(plan.Releasing, 0)}, "record cleanup_proved@2 node proved the cleanup; check +10s"},
		"gone at an older fence":          {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Gone, 1), Progress: since(plan.Releasing, 0)}, "release@2 released; check +10s"},
		"gone, unproved":                  {plan.DueAllocation{Desired: released(2), Observed: with(have(protocol.Gone, 2), func(h *plan.Observed) { h.Proven = false }), Progress: since(plan.Releasing, 0)}, "release@2 released; check +10s"},
		"release attempts used up":        {plan.DueAllocation{Desired: released(1), Observed: with(have(protocol.Broken, 1), failed(5)), Progress: since(plan.Releasing, 0)}, "record exhausted@1 release attempts used up; check +10s"},
		"release too long":                {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Ready, 1), Progress: since(plan.Releasing, 15*time.Minute)}, "record exhausted@2 release took too long; check +10s"},
		"release too long, in silence":    {plan.DueAllocation{Desired: released(2), Observed: with(have(protocol.Ready, 1), func(h *plan.Observed) { h.StaleAt = t0 }), Progress: since(plan.Releasing, 15*time.Minute)}, "record exhausted@2 release took too long; check +10s"},
		"a late proof heals":              {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Gone, 2), Progress: since(plan.ReleaseFailed, time.Hour)}, "record cleanup_proved@2 node proved the cleanup; check +10s"},
		"release failed, still requested": {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Ready, 1), Progress: since(plan.ReleaseFailed, time.Hour)}, "release@2 released; check +10s"},
		"a failed one is cleaned":         {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Broken, 1), Progress: since(plan.Failed, time.Hour)}, "release@2 released; check +10s"},
		"a failed one is clean":           {plan.DueAllocation{Desired: released(2), Observed: have(protocol.Gone, 2), Progress: since(plan.Failed, time.Hour)}, "record cleanup_proved@2 node proved the cleanup; check +10s"},
		"a leak":                          {plan.DueAllocation{Observed: have(protocol.Ready, 3)}, "release@3 not desired; check +10s"},
		"a leak that works":               {plan.DueAllocation{Observed: have(protocol.Working, 3)}, "release@3 not desired; check +10s"},
		"a leak, release requested":       {plan.DueAllocation{Observed: have(protocol.Ready, 3), Previous: plan.Previous{Verb: plan.Release, Fence: 3, Until: t0.Add(4 * time.Second)}}, "; check +4s"},
		"a leak, not yet released":        {plan.DueAllocation{Observed: have(protocol.Ready, 3), Previous: plan.Previous{Verb: plan.Release, Fence: 3, Until: t0}}, "release@3 not desired; check +10s"},
		"a leak, being released":          {plan.DueAllocation{Observed: have(protocol.Working, 4), Previous: plan.Previous{Verb: plan.Release, Fence: 3, Until: t0.Add(4 * time.Second)}}, "release@4 not desired; check +10s"},
		"a leak, released for long":       {plan.DueAllocation{Observed: have(protocol.Working, 4), Previous: plan.Previous{Verb: plan.Release, Fence: 4, Until: t0}}, "release@4 not desired; check +10s"},
		"a leak, report incomplete":       {plan.DueAllocation{Observed: with(have(protocol.Working, 4), func(h *plan.Observed) { h.Complete = false }), Previous: plan.Previous{Verb: plan.Release, Fence: 4, Until: t0.Add(4 * time.Second)}}, "probe@4 report is stale or incomplete; check +10s"},
		"a leak, then probed":             {plan.DueAllocation{Observed: have(protocol.Working, 4), Previous: plan.Previous{Verb: plan.Probe, Fence: 4, Until: t0.Add(4 * time.Second)}}, "release@4 not desired; check +10s"},
		"a leak, back after a probe":      {plan.DueAllocation{Observed: have(protocol.Ready, 3), Previous: plan.Previous{Verb: plan.Probe, Fence: 3, Until: t0.Add(4 * time.Second)}}, "release@3 not desired; check +10s"},
		"a leak, its release failed":      {plan.DueAllocation{Observed: have(protocol.Broken, 4), Previous: plan.Previous{Verb: plan.Release, Fence: 4, Until: t0.Add(4 * time.Second)}}, "; check +4s"},
		"a leak, failed a while ago":      {plan.DueAllocation{Observed: have(protocol.Broken, 4), Previous: plan.Previous{Verb: plan.Release, Fence: 4, Until: t0}}, "release@4 not desired; check +10s"},
		"a leak on a silent node":         {plan.DueAllocation{Observed: with(have(protocol.Ready, 3), func(h *plan.Observed) { h.StaleAt = t0 })}, "probe@3 report is stale or incomplete; check +10s"},
		"a memory of what is gone":        {plan.DueAllocation{Observed: have(protocol.Gone, 3)}, ""},
		"a memory, on a silent node":      {plan.DueAllocation{Observed: with(have(protocol.Gone, 3), func(h *plan.Observed) { h.StaleAt = t0 })}, ""},
		"nothing on either side":          {plan.DueAllocation{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c.due.ID = ids.New[ids.Allocation]()
			if got := show(plan.Allocations([]plan.DueAllocation{c.due}, limits, t0)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestObjectCases(t *testing.T) {
	t.Parallel()

	id := uuid.New()
	for name, c := range map[string]struct {
		due  plan.DueObject
		want string
	}{
		"declared":         {plan.DueObject{Kind: desired.KindSKU, Generation: 1, SpecHash: "1"}, "ensure@0 declared; check +10s"},
		"applied":          {plan.DueObject{Kind: desired.KindSKU, Generation: 1, SpecHash: "1", AppliedGeneration: 1, AppliedHash: "1"}, ""},
		"changed":          {plan.DueObject{Kind: desired.KindSKU, Generation: 2, SpecHash: "2", AppliedGeneration: 1, AppliedHash: "1"}, "ensure@0 declared; check +10s"},
		"removed":          {plan.DueObject{Kind: desired.KindSKU, Generation: 2, SpecHash: "1", Deleted: true, AppliedGeneration: 1, AppliedHash: "1"}, "release@0 no longer desired; check +10s"},
		"removed and gone": {plan.DueObject{Kind: desired.KindSKU, Generation: 2, SpecHash: "1", Deleted: true, AppliedGeneration: 2, AppliedHash: "1", Gone: true}, ""},
		"declared again":   {plan.DueObject{Kind: desired.KindSKU, Generation: 3, SpecHash: "1", AppliedGeneration: 2, AppliedHash: "1", Gone: true}, "ensure@0 declared; check +10s"},
		"not declared":     {plan.DueObject{Kind: desired.KindSKU}, ""},
		"node speaks":      {node(t0.Add(time.Minute), true), "; check +1m0s"},
		"node fell silent": {node(t0, true), "record reports_stale@0 reports have stopped; check +10s"},
		"node is silent":   {node(t0, false), ""},
		"node came back":   {node(t0.Add(time.Minute), false), "record reports_resumed@0 reports have begun again; check +10s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c.due.Object = id
			if got := show(plan.Objects([]plan.DueObject{c.due}, limits, t0)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func node(staleAt time.Time, reachable bool) plan.DueObject {
	return plan.DueObject{
		Kind: desired.KindNode, Generation: 1, SpecHash: "1", AppliedGeneration: 1, AppliedHash: "1",
		Reports: &plan.ReportState{StaleAt: staleAt, Reachable: reachable},
	}
}

func show(p plan.Plan) string {
	var b strings.Builder
	for _, a := range p.Actions {
		fmt.Fprintf(&b, "%s", a.Verb)
		if a.Event != "" {
			fmt.Fprintf(&b, " %s", a.Event)
		}
		fmt.Fprintf(&b, "@%d %s", a.Fence, a.Reason)
	}
	for _, n := range p.Next {
		fmt.Fprintf(&b, "; check +%s", n.At.Sub(t0))
	}
	for _, d := range p.Drift {
		fmt.Fprintf(&b, "; drift %s: %s", d.Move, d.Field)
	}
	return b.String()
}

// An SKU with other time limits follows them, in provisioning and in a release.
func TestDeadlinesOfAnSKU(t *testing.T) {
	t.Parallel()
	at := func(sku string, w *plan.Desired, phase protocol.Phase, s plan.State) time.Time {
		w.SKU = sku
		d := plan.DueAllocation{Desired: w, Observed: have(phase, 1), Progress: since(s, 10*time.Minute)}
		if s == plan.Releasing {
			d.Previous = plan.Previous{Verb: plan.Release, Fence: 2, Generation: 2, Until: t0.Add(time.Hour)}
		}
		return plan.Allocations([]plan.DueAllocation{d}, limits, t0).Next[0].At
	}
	for name, c := range map[string]struct {
		got  time.Time
		want time.Duration
	}{
		"provisioning":       {at("fast", want(1), protocol.Working, plan.Provisioning), 5 * time.Minute},
		"provisioning, slow": {at("slow", want(1), protocol.Working, plan.Provisioning), 10 * time.Minute},
		"a release":          {at("fast", released(2), protocol.Ready, plan.Releasing), 5 * time.Minute},
		"a release, slow":    {at("slow", released(2), protocol.Ready, plan.Releasing), 15 * time.Minute},
	} {
		if got := c.got.Sub(t0); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An object that could not be applied is requested again until the limit, and then not until it changes.
func TestAnObjectStalls(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]int{0: 1, 3: 1, 4: 0, 9: 0} {
		p := plan.Objects([]plan.DueObject{{Kind: desired.KindSKU, Generation: 1, SpecHash: "1", Failures: failures}}, limits, t0)
		if len(p.Actions) != want {
			t.Errorf("after %d failures: %+v", failures, p.Actions)
		}
	}
}
