package allocation

import (
	"time"

	"github.com/gpuaas/gpuaas/platform/metering"
)

// Seen is what an allocation's host last said of it, as conditions need it.
type Seen struct {
	Reported   bool
	Phase      string // working | ready | broken | gone
	Step       string
	Message    string
	Failures   int
	Generation int64
	// What is wrong with a GPU of it, in words for its holder; empty: nothing.
	Fault      string
	FaultSince time.Time
}

// Condition is a named yes, no or unknown about an allocation.
type Condition struct {
	Type               string
	Status             string // True | False | Unknown
	Reason             string // CamelCase, from the contract's list
	Message            string
	ObservedGeneration int64
	LastTransitionTime time.Time
}

// The values of a condition's status.
const (
	isTrue  = "True"
	isFalse = "False"
	unclear = "Unknown"
)

// summary is what each state means for Ready, by the table in the docs.
var summaries = map[State]struct{ ready, reason, message string }{
	Requested:     {isFalse, "Progressing", "the task is not in the mailbox of the node yet"},
	Provisioning:  {isFalse, "Progressing", "the node is preparing it"},
	Active:        {isTrue, "Succeeded", "ready to use"},
	Releasing:     {isFalse, "Progressing", "the node is cleaning up"},
	Released:      {isTrue, "Succeeded", "released, and proved clean"},
	Failed:        {isFalse, "Failed", "provisioning is exhausted; nothing is charged"},
	ReleaseFailed: {isFalse, "Failed", "the release is exhausted; billing has ended and the slots are quarantined"},
}

// Conditions says where an allocation stands, the summary first.
func Conditions(a Allocation, seen Seen) []Condition {
	list := []Condition{ready(a, seen)}
	switch a.State {
	case Requested, Provisioning, Releasing:
		if !a.Queued() {
			list = append(list, a.condition("Reconciling", isTrue, progressReason(seen), progress(a, seen)))
		}
	case Failed, ReleaseFailed:
		list = append(list, a.condition("Stalled", isTrue, "Failed", a.Message))
	case Active, Released:
	}
	if a.State == Active && seen.Phase == "broken" {
		list = append(list, a.condition("Drifted", isTrue, "Progressing", seen.Message))
	}
	if a.lives() && a.LeaveAt != nil {
		list = append(list, a.pendingRelease())
	}
	if a.State == Active && seen.Fault != "" {
		c := a.condition("GPUHealthy", isFalse, "HealthCheckFailed", seen.Fault)
		c.LastTransitionTime = seen.FaultSince
		list = append(list, c)
	}
	list = append(list,
		a.step("NodeAssigned", a.placed()),
		a.step("Provisioned", a.ActiveAt != nil),
		a.step("AccessReady", a.State == Active && seen.Phase == "ready"),
		a.metering(),
	)
	for i := range list {
		list[i].ObservedGeneration = seen.Generation
	}
	return list
}

func ready(a Allocation, seen Seen) Condition {
	s := summaries[a.State]
	c := a.condition("Ready", s.ready, s.reason, s.message)
	switch {
	case a.Queued():
		c.Reason, c.Message = "Queued", "waits for capacity"
	case a.State == Active && seen.Phase == "broken":
		c.Status, c.Reason, c.Message = isFalse, "Progressing", "drifted and being healed: "+seen.Message
	case a.State == Active && !seen.Reported:
		c.Status, c.Reason, c.Message = unclear, "StaleReport", "the node has not reported the allocation"
	}
	return c
}

func (a Allocation) condition(kind, status, reason, message string) Condition {
	return Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: a.StatusAt}
}

func (a Allocation) step(kind string, done bool) Condition {
	if done {
		return a.condition(kind, isTrue, "Succeeded", "")
	}
	reason := "Progressing"
	if a.State != Requested && a.State != Provisioning {
		reason = "Suspended"
	}
	return a.condition(kind, isFalse, reason, "")
}

// metering says of an active allocation why it may cost nothing for a while.
func (a Allocation) metering() Condition {
	message, paused := map[metering.Cause]string{
		metering.ObservationStale: "the node does not report; nothing is charged, and charges since its last report are credited",
		metering.NodeUnhealthy:    "the node or one of its GPUs is unhealthy; nothing is charged",
	}[a.Paused]
	if !paused {
		return a.step("Metering", a.State == Active)
	}
	return a.condition("Metering", isFalse, "Suspended", message)
}

func progressReason(seen Seen) string {
	if seen.Failures > 0 {
		return "ProgressingWithRetry"
	}
	return "Progressing"
}

func progress(a Allocation, seen Seen) string {
	if seen.Step != "" {
		return "step " + seen.Step
	}
	if seen.Failures > 0 {
		return seen.Message
	}
	return summaries[a.State].message
}
