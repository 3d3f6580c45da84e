package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/check"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Whatever is edited, and whichever tasks are lost, repeated or late, the fleet converges, and no
// node returns to an older fence. The test checks the simulated nodes and not only the plan: a
// planner that lacks a case returns an empty plan, too.
func TestAllocationsConverge(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		f := newFleet()
		for range rapid.IntRange(0, 60).Draw(t, "edits") {
			f.edit(t)
			if held := check.Plan(f.plan(), check.Budget{Releases: len(f.names)}); len(held) > 0 {
				t.Fatalf("the check stops: %+v", held)
			}
			f.deliverSome(t)
		}
		f.heal()

		for _, id := range f.names {
			w, h, p := f.want[id], f.have[id], f.progress[id]
			switch {
			case w == nil && h != nil && h.Phase != protocol.Gone:
				t.Errorf("%s is not desired, but its node reports %s", id, h.Phase)
			case w == nil:
			case w.Released:
				t.Errorf("%s was released and still waits in %s: want %+v, have %+v", id, p.State, w, h)
			case h == nil || h.Phase != protocol.Ready || h.Fence != w.Fence || h.SpecHash != w.SpecHash:
				t.Errorf("%s: want %+v, have %+v", id, w, h)
			case p.State != plan.Active:
				t.Errorf("%s is ready on its node and %s in its row", id, p.State)
			}
		}
		for _, fault := range f.faults {
			t.Error(fault)
		}
		// INV-16: at rest a plan is empty.
		if rest := f.plan(); len(rest.Actions) > 0 || len(rest.Drift) > 0 {
			t.Errorf("at rest, yet: %+v %+v", rest.Actions, rest.Drift)
		}
	})
}

// INV-46: a stale report allows only a probe, and a release that is overdue. A pending one is not repeated.
func TestINV46BlindOnlyProbes(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		f := newFleet()
		for range rapid.IntRange(1, 60).Draw(t, "edits") {
			f.edit(t)
			for _, h := range f.have {
				h.StaleAt = f.now // no report is fresh
			}
			for _, a := range f.plan().Actions {
				id := ids.Allocation{UUID: a.Object}
				overdue := f.want[id] != nil && f.want[id].Released && f.progress[id].State == plan.ReleaseFailed
				if f.spoke(a) && (a.Verb == plan.Ensure || a.Verb == plan.Release && !overdue) {
					t.Errorf("acts on a stale report: %+v", a)
				}
				if a.Event == plan.NodeReady {
					t.Errorf("acts on a stale report: %+v", a)
				}
			}
			if again := f.plan(); len(again.Actions) > 0 {
				t.Errorf("requested twice: %+v", again.Actions)
			}
			f.deliverSome(t)
		}
	})
}
