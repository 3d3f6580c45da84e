// Package check checks a plan by rules of its own, so that a bug in the planner does not become
// work on nodes. It is pure and shares only the types of a plan with the planner.
package check

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Deferred is an action that must not run now, with the reason. It is delayed and no error: the
// object stays due.
type Deferred struct {
	Number int // index of the action in its plan
	Why    string
}

// Budget limits the actions that the platform decides by itself.
type Budget struct {
	Releases int // allocations it may still release in this period
	Nodes    int // nodes that it may still make unsellable
	// Spent contains the objects that were counted already: repeating their action costs nothing.
	Spent map[uuid.UUID]bool
	// Approved contains the revisions that an operator has approved.
	Approved map[Revision]bool
}

// Revision is a commit of a source.
type Revision struct{ Source, Commit string }

// Plan returns the actions of p that must not run now.
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
	case a.Unobserved && (a.Verb == plan.Ensure || a.Verb == plan.Release && a.Automatic): // a requested release only removes
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

// spend subtracts an automatic action from the budget. An action costs nothing if a user, a TTL or
// a balance caused it, or if an operator approved it. A release at the end of a drain costs: the
// tenant has not requested it.
func spend(a plan.Action, b *Budget) string {
	left, why := &b.Releases, "too many automatic releases; an operator must check"
	if a.Kind == desired.KindNode {
		left, why = &b.Nodes, "too many nodes put out of service automatically; an operator must check"
	}
	switch {
	case !a.Automatic || a.Kind != desired.KindNode && a.Verb != plan.Release && a.Event != plan.EvictionDue || b.Spent[a.Object]:
		return ""
	case a.Source != "" && b.Approved[Revision{a.Source, a.Commit}]:
		return ""
	case *left <= 0:
		return why
	}
	*left--
	return ""
}
