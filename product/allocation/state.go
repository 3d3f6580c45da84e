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

// States lists the states from the first to the last.
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

// transitions is the complete state machine. Any other transition is impossible.
//
// No state frees a slot: only a proof does. The state failed is therefore final for the user, while the
// tombstone stays until the node proves the slots clean. A late proof still heals release_failed.
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
