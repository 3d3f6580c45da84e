// Package check lints a plan by rules of its own, so that a fault of the planner
// is held back before it becomes work. It is pure and shares no code with the
// planner but the shape of a plan.
package check

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Deferred is an action that must not run now, and why. Held is a delay, not an
// error: the object stays due.
type Deferred struct {
	Number int // index of the action in its plan
	Why    string
}

// Budget bounds what the platform may do by its own judgement.
type Budget struct {
	Releases int // allocations it may still release in this period
	Nodes    int // nodes it may still take off the market
	// Spent holds what it has judged already: to ask again costs nothing.
	Spent map[uuid.UUID]bool
	// Approved are the revisions that a person has let through.
	Approved map[Revision]bool
}

// Revision is a commit of a source.
type Revision struct{ Source, Commit string }

// Plan returns the actions of p that must be held.
func Plan(p plan.Plan, b Budget) (held []Deferred) {
	slots := map[string]plan.Action{}
	seen := map[ids.Object]bool{}
	for i, a := range p.Actions {
		if why := reject(a, slots, seen, &b); why != "" {
			held = append(held, Deferred{i, why})
		}
	}
	return held
}

func reject(a plan.Action, slots map[string]plan.Action, seen map[ids.Object]bool, b *Budget) string {
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
// balance asked for, or a person approved, is not judged and costs nothing. A drain
// that ends in a release is: whoever is released has not asked for it.
func spend(a plan.Action, b *Budget) string {
	left, why := &b.Releases, "too many automatic releases; an operator must check"
	if a.Kind == desired.KindNode {
		left, why = &b.Nodes, "too many nodes taken out of service automatically; an operator must check"
	}
	switch {
	case !a.Judged || a.Kind != desired.KindNode && a.Verb != plan.Release && a.Event != plan.EvictionDue || b.Spent[a.Object]:
		return ""
	case a.Source != "" && b.Approved[Revision{a.Source, a.Commit}]:
		return ""
	case *left <= 0:
		return why
	}
	*left--
	return ""
}
