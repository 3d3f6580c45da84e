package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/reconciler/check"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

func act(v plan.Verb, slots ...string) plan.Action {
	return plan.Action{Verb: v, Kind: desired.KindAllocation, Object: uuid.New(), Reason: "why", Slots: slots}
}

func with(a plan.Action, change func(*plan.Action)) plan.Action {
	change(&a)
	return a
}

// Each rule with an accepted plan, and with the plan of a planner that violates it.
func TestPlan(t *testing.T) {
	t.Parallel()
	automatic := func(a *plan.Action) { a.Automatic = true }
	blind := func(a *plan.Action) { a.Unobserved = true }
	one, leak := act(plan.Ensure, "g1"), with(act(plan.Release), automatic)
	for name, c := range map[string]struct {
		actions []plan.Action
		budget  check.Budget
		want    string // number: beginning of the reason
	}{
		"a sound plan":                      {[]plan.Action{act(plan.Ensure, "g1"), act(plan.Ensure, "g2"), act(plan.Release, "g1"), act(plan.Record), act(plan.Probe)}, check.Budget{}, ""},
		"no reason":                         {[]plan.Action{with(one, func(a *plan.Action) { a.Reason = "" })}, check.Budget{}, "0: an action needs a reason"},
		"two actions for one object":        {[]plan.Action{one, with(act(plan.Release), func(a *plan.Action) { a.Object = one.Object })}, check.Budget{}, "1: a second action"},
		"ensure in the dark":                {[]plan.Action{with(one, blind)}, check.Budget{}, "0: acts on a report"},
		"release in the dark":               {[]plan.Action{with(leak, blind)}, check.Budget{Releases: 1}, "0: acts on a report"},
		"a requested release in the dark":   {[]plan.Action{with(act(plan.Release), blind)}, check.Budget{}, ""},
		"a question in the dark":            {[]plan.Action{with(act(plan.Probe), blind), with(act(plan.Record), blind)}, check.Budget{}, ""},
		"a slot twice":                      {[]plan.Action{one, act(plan.Ensure, "g0", "g1")}, check.Budget{}, "1: slot g1 is already given"},
		"a slot of a blocked action":        {[]plan.Action{with(one, blind), act(plan.Ensure, "g1")}, check.Budget{}, "0: acts on a report"},
		"more automatic than allowed":       {[]plan.Action{leak, with(act(plan.Release), automatic), with(act(plan.Release), automatic)}, check.Budget{Releases: 1}, "1: too many, 2: too many"},
		"a user's request is free":          {[]plan.Action{act(plan.Release), act(plan.Release)}, check.Budget{}, ""},
		"healing costs nothing":             {[]plan.Action{with(one, automatic)}, check.Budget{}, ""},
		"requested before, requested again": {[]plan.Action{leak, with(act(plan.Release), automatic)}, check.Budget{Spent: map[uuid.UUID]bool{leak.Object: true}}, "1: too many"},
		"blocked for another reason is not": {[]plan.Action{with(leak, blind), with(act(plan.Release), automatic)}, check.Budget{Releases: 1}, "0: acts on a report"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := check.Plan(plan.Plan{Actions: c.actions}, c.budget)
			wants := strings.Split(c.want, ", ")
			if c.want == "" {
				wants = nil
			}
			if len(held) != len(wants) {
				t.Fatalf("blocked %+v", held)
			}
			for i, want := range wants {
				if got := fmt.Sprintf("%d: %s", held[i].Number, held[i].Why); !strings.HasPrefix(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}
