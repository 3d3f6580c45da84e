package plan_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var limits = plan.Limits{
	Deadlines:         plan.Deadlines{Provision: 15 * time.Minute, Release: 15 * time.Minute},
	SKUs:              map[string]plan.Deadlines{"slow": {Provision: 20 * time.Minute, Release: 25 * time.Minute}},
	ProvisionAttempts: 3, ReleaseAttempts: 5, RetryLimit: 4, RetryAfter: 10 * time.Second,
}

// simulatedNode simulates one allocation on a node: it rejects tasks with a lower fence.
type simulatedNode struct {
	plan.Observed

	acted int64     // highest fence acted on
	verb  plan.Verb // and what was ordered at it
}

// fleet simulates desired objects, nodes, and the packages that record states.
type fleet struct {
	now      time.Time
	names    []ids.Allocation
	want     map[ids.Allocation]*plan.Desired
	have     map[ids.Allocation]*simulatedNode
	progress map[ids.Allocation]*plan.Progress
	previous map[ids.Allocation]plan.Previous
	drifts   map[ids.Allocation][]plan.OpenDrift
	mail     []plan.Action
	ever     map[ids.Allocation]int64 // highest fence that a node has executed
	faults   []string
}

func newFleet() *fleet {
	f := &fleet{
		now: t0, want: map[ids.Allocation]*plan.Desired{}, have: map[ids.Allocation]*simulatedNode{}, progress: map[ids.Allocation]*plan.Progress{},
		previous: map[ids.Allocation]plan.Previous{}, drifts: map[ids.Allocation][]plan.OpenDrift{}, ever: map[ids.Allocation]int64{},
	}
	for i := range 2 {
		id := ids.Allocation{UUID: uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", i+1))}
		f.names = append(f.names, id)
	}
	return f
}

var edits = []string{"create", "release", "respec", "redecide", "drift", "corrupt", "forget", "silence", "leak", "wait", "fail"}

// edit changes the fleet as users, operators and faults do between two passes.
func (f *fleet) edit(t *rapid.T) {
	id := rapid.SampledFrom(f.names).Draw(t, "which")
	w, h := f.want[id], f.have[id]
	switch what := rapid.SampledFrom(edits).Draw(t, "edit"); {
	case what == "create" && w == nil && h == nil:
		f.want[id] = &plan.Desired{Generation: 1, Fence: 1, SpecHash: "1", Slots: []string{id.String()}}
		f.progress[id] = &plan.Progress{State: plan.Requested, Since: f.now}
	case what == "release" && w != nil && !w.Released && f.progress[id].State != plan.Failed:
		f.decide(w)
		w.Released = true
		f.move(id, plan.Releasing)
	case what == "release" && w != nil && f.progress[id].State == plan.ReleaseFailed:
		f.decide(w) // a user tries again
		f.move(id, plan.Releasing)
	case what == "respec" && w != nil && !w.Released:
		f.decide(w)
	case what == "redecide" && w != nil && !w.Released:
		w.Fence++ // a decision that changes no spec
	case what == "corrupt" && h != nil && h.Phase == protocol.Ready:
		h.SpecHash = "?"
	case what == "drift" && h != nil && h.Phase == protocol.Ready:
		h.Phase, h.Message = protocol.Broken, "keys differ"
	case what == "forget" && h != nil:
		h.Phase, h.Proven = protocol.Gone, false // the report no longer mentions it
	case what == "silence" && h != nil:
		h.StaleAt = f.now
	case what == "leak" && w == nil && h == nil:
		f.have[id] = &simulatedNode{Observed: plan.Observed{Phase: protocol.Ready, Fence: 3, SpecHash: "x", Complete: true, StaleAt: f.now.Add(time.Minute)}, acted: 3, verb: plan.Ensure}
	case what == "fail" && w != nil && h != nil:
		f.fail(id)
	case what == "wait":
		f.now = f.now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "seconds")) * time.Second)
	}
}

func (f *fleet) decide(w *plan.Desired) {
	w.Generation++
	w.Fence++
	w.SpecHash = fmt.Sprint(w.Generation)
}

func (f *fleet) fail(id ids.Allocation) {
	w, h := f.want[id], f.have[id]
	if h.FailedFence != w.Fence {
		h.Failures = 0
	}
	h.FailedFence, h.Failures = w.Fence, h.Failures+1
}

func (f *fleet) due() (due []plan.DueAllocation) {
	for _, id := range f.names {
		d := plan.DueAllocation{ID: id, Desired: f.want[id], Progress: f.progress[id], Previous: f.previous[id], OpenDrift: f.drifts[id]}
		if h := f.have[id]; h != nil {
			have := h.Observed
			d.Observed = &have
		}
		due = append(due, d)
	}
	return due
}

// plan plans once and stores what the loop would store.
func (f *fleet) plan() plan.Plan {
	p := plan.Allocations(f.due(), limits, f.now)
	for _, n := range p.Next {
		f.previous[ids.Allocation{UUID: n.Object}] = n.Previous
	}
	for _, d := range p.Drift {
		f.write(ids.Allocation{UUID: d.Object}, d)
	}
	f.mail = append(f.mail, p.Actions...)
	return p
}

// write stores drift as the loop does.
func (f *fleet) write(id ids.Allocation, d plan.Drift) {
	rest := slices.DeleteFunc(f.drifts[id], func(s plan.OpenDrift) bool { return s.Field == d.Field })
	if d.Move != plan.Healed {
		rest = append(rest, d.OpenDrift)
	}
	f.drifts[id] = rest
}

// deliverSome loses, repeats and reorders what is on its way.
func (f *fleet) deliverSome(t *rapid.T) {
	f.mail = rapid.Permutation(f.mail).Draw(t, "order")
	keep := f.mail[:0:0]
	for _, a := range f.mail {
		switch rapid.SampledFrom([]string{"deliver", "lose", "later", "twice"}).Draw(t, "fate") {
		case "deliver":
			f.deliver(a)
		case "twice":
			f.deliver(a)
			keep = append(keep, a)
		case "later":
			keep = append(keep, a)
		}
	}
	f.mail = keep
}

func (f *fleet) deliver(a plan.Action) {
	id := ids.Allocation{UUID: a.Object}
	switch a.Verb {
	case plan.Record:
		f.record(id, a)
	case plan.Probe:
		if h := f.have[id]; h != nil {
			h.StaleAt, h.Complete = f.now.Add(time.Minute), true
		}
	case plan.Ensure, plan.Release:
		f.act(id, a)
	}
}

// act simulates the node: it never returns to an older fence.
func (f *fleet) act(id ids.Allocation, a plan.Action) {
	h := f.have[id]
	if h == nil {
		h = &simulatedNode{}
		f.have[id] = h
	}
	if a.Generation == 0 && (h.verb != plan.Release || h.acted < a.Fence) {
		a.Fence = max(h.acted, a.Fence) + 1 // the mailbox sets the fence of a release that nothing declares
	} else if a.Generation == 0 {
		a.Fence = h.acted
	}
	if a.Fence < h.acted || a.Fence == h.acted && h.verb != a.Verb {
		return // rejected: stale, or two tasks with one fence
	}
	h.acted, h.verb, h.Fence = a.Fence, a.Verb, a.Fence
	h.Complete, h.StaleAt, h.Message = true, f.now.Add(time.Minute), ""
	if a.Verb == plan.Release {
		h.Phase, h.Proven, h.SpecHash = protocol.Gone, true, ""
		return
	}
	h.Phase, h.Proven, h.SpecHash = protocol.Ready, false, fmt.Sprint(a.Generation)
	if f.ever[id] > a.Fence {
		f.faults = append(f.faults, fmt.Sprintf("%s went back from fence %d to %d", id, f.ever[id], a.Fence))
	}
	f.ever[id] = max(f.ever[id], a.Fence)
}

// record simulates the owning package, which reads the state again before it writes.
func (f *fleet) record(id ids.Allocation, a plan.Action) {
	w, h, p := f.want[id], f.have[id], f.progress[id]
	if w == nil || p == nil || w.Fence != a.Fence {
		return // a newer plan exists
	}
	switch a.Event {
	case plan.NodeReady:
		if (p.State == plan.Requested || p.State == plan.Provisioning) && h != nil && h.Phase == protocol.Ready && h.Fence == w.Fence {
			f.move(id, plan.Active)
		}
	case plan.CleanupProved:
		if h == nil || h.Phase != protocol.Gone || !h.Proven || h.Fence < w.Fence {
			return
		}
		if p.State != plan.Failed {
			f.move(id, plan.Released)
		}
		delete(f.want, id)
	case plan.Exhausted:
		switch p.State {
		case plan.Requested, plan.Provisioning:
			f.decide(w)
			w.Released = true
			f.move(id, plan.Failed)
		case plan.Releasing:
			f.move(id, plan.ReleaseFailed)
		default:
		}
	default:
	}
}

func (f *fleet) move(id ids.Allocation, s plan.State) {
	p := f.progress[id]
	if p.State == plan.Released {
		f.faults = append(f.faults, fmt.Sprintf("%s left released for %s", id, s))
	}
	p.State, p.Since = s, f.now
}

// spoke reports whether the node of an action has ever reported.
func (f *fleet) spoke(a plan.Action) bool { return f.have[ids.Allocation{UUID: a.Object}] != nil }

// heal is a network that works again: everything sent now arrives.
func (f *fleet) heal() {
	slices.SortStableFunc(f.mail, func(a, b plan.Action) int { return int(a.Fence - b.Fence) })
	for _, a := range f.mail {
		f.deliver(a)
	}
	f.mail = nil
	for range 6 {
		f.now = f.now.Add(limits.RetryAfter)
		for _, h := range f.have {
			h.StaleAt, h.Complete = f.now.Add(time.Minute), true
		}
		f.plan()
		for _, a := range f.mail {
			f.deliver(a)
		}
		f.mail = nil
	}
}
