package allocation

import (
	"github.com/gpuaas/gpuaas/internal/errs"
)

// State of an allocation; equal to the value in the table.
type State string

// The states.
const (
	Requested     State = "requested"
	Provisioning  State = "provisioning"
	Active        State = "active"
	Releasing     State = "releasing"
	Released      State = "released"
	Failed        State = "failed"
	ReleaseFailed State = "release_failed"
)

// States lists them in the order of a life.
func States() []State {
	return []State{Requested, Provisioning, Active, Releasing, Released, Failed, ReleaseFailed}
}

// Event is something that happened, never something we would like to happen. A
// silent node is no event but a condition: what it runs is unknown, not over.
type Trigger string

// The events.
const (
	TaskQueued       Trigger = "task_queued"
	NodeReady        Trigger = "node_ready"
	ReleaseRequested Trigger = "release_requested"
	CleanupProved    Trigger = "cleanup_proved"
	Exhausted        Trigger = "exhausted"
)

// Events lists them.
func Triggers() []Trigger {
	return []Trigger{TaskQueued, NodeReady, ReleaseRequested, CleanupProved, Exhausted}
}

// transitions is the whole machine. What is not listed cannot happen.
//
// No state frees a slot: only a proof does. So failed is final for the user
// while its tombstone in desired stays until the host proves it clean, and a
// late proof still heals release_failed.
var transitions = map[State]map[Trigger]State{
	Requested:     {TaskQueued: Provisioning, ReleaseRequested: Releasing, Exhausted: Failed},
	Provisioning:  {NodeReady: Active, ReleaseRequested: Releasing, Exhausted: Failed},
	Active:        {ReleaseRequested: Releasing},
	Releasing:     {CleanupProved: Released, Exhausted: ReleaseFailed},
	ReleaseFailed: {ReleaseRequested: Releasing, CleanupProved: Released},
	Released:      {},
	Failed:        {},
}

// Next returns the state that follows s when e happens.
func Next(s State, e Trigger) (State, error) {
	if to, ok := transitions[s][e]; ok {
		return to, nil
	}
	if e == ReleaseRequested {
		return s, notReleasable(s)
	}
	return s, errs.New(errs.Conflict, "an allocation in state %s does not accept %s", s, e)
}

func notReleasable(s State) error {
	if s == Releasing {
		return errs.New(errs.AllocationAlreadyReleasing, "this allocation is already being released").Try("wait until the release completes")
	}
	return errs.New(errs.AllocationFinal, "the allocation is %s and cannot be released", s)
}
