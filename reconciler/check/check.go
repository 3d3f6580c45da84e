// Package check lints a plan by rules of its own, so that a fault of the planner
// is held back before it becomes work. It is pure and shares no code with the
// planner but the shape of a plan.
package check

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Held is an action that must not run now, and why. Held is a delay, not an
// error: the object stays due.
type Held struct {
	Number int // index of the action in its plan
	Why    string
}

// Budget bounds what the platform may do by its own judgement.
type Budget struct {
	Releases int // allocations it may still release in this period
	// Spent holds those that it has released already: to ask again costs nothing.
	Spent map[uuid.UUID]bool
}

// Plan returns the actions of p that must be held.
func Plan(p plan.Plan, b Budget) (held []Held) {
	slots := map[string]plan.Action{}
	seen := map[ids.Object]bool{}
	for i, a := range p.Actions {
		if why := refuse(a, slots, seen, &b); why != "" {
			held = append(held, Held{i, why})
		}
	}
	return held
}

func refuse(a plan.Action, slots map[string]plan.Action, seen map[ids.Object]bool, b *Budget) string {
	object := ids.Object{UUID: a.Object}
	switch {
	case a.Reason == "":
		return "an action needs a reason"
	case seen[object]:
		return "a second action for one object in one plan"
	case a.Blind && (a.Verb == plan.Ensure || a.Verb == plan.Release):
		return "acts on a report that is stale or incomplete"
	}
	seen[object] = true

	if a.Verb == plan.Ensure {
		for _, s := range a.Slots {
			if other, taken := slots[s]; taken && other.Object != a.Object {
				return fmt.Sprintf("slot %s is already given to %s", s, other.Object)
			}
		}
		for _, s := range a.Slots {
			slots[s] = a
		}
	}
	return spend(a, b)
}

// spend takes a judged action out of the budget. What a user, a lease or a
// balance asked for is not judged and costs nothing.
func spend(a plan.Action, b *Budget) string {
	switch {
	case !a.Judged || a.Verb != plan.Release || b.Spent[a.Object]:
		return ""
	case b.Releases <= 0:
		return "too many releases by the platform's own judgement; a person must look"
	}
	b.Releases--
	return ""
}
