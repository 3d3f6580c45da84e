package allocation

import (
	"time"

	"github.com/gpuaas/gpuaas/platform/metering"
)

// Observed is the last report of an allocation's node, as far as conditions need it.
type Observed struct {
	Reported   bool
	Phase      string // working | ready | broken | gone
	Step       string
	Message    string
	Failures   int
	Generation int64
	// Fault is the fault of a GPU of the allocation, as text for its tenant. It is empty without a
	// fault.
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

// summaries defines the condition Ready of each state, as the table in the documentation does.
var summaries = map[State]struct{ ready, reason, message string }{
	Requested:     {isFalse, "Progressing", "the task is not in the mailbox of the node yet"},
	Provisioning:  {isFalse, "Progressing", "the node is preparing it"},
	Active:        {isTrue, "Succeeded", "ready to use"},
	Releasing:     {isFalse, "Progressing", "the node is cleaning up"},
	Released:      {isTrue, "Succeeded", "released, and proved clean"},
	Failed:        {isFalse, "Failed", "provisioning is exhausted; nothing is charged"},
	ReleaseFailed: {isFalse, "Failed", "the release is exhausted; billing has ended and the slots are quarantined"},
}

// Conditions returns the conditions of an allocation, the summary first.
func Conditions(a Allocation, seen Observed) []Condition {
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

func ready(a Allocation, seen Observed) Condition {
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

// metering returns the condition of charging, with the reason why an active allocation is not charged.
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

func progressReason(seen Observed) string {
	if seen.Failures > 0 {
		return "ProgressingWithRetry"
	}
	return "Progressing"
}

func progress(a Allocation, seen Observed) string {
	if seen.Step != "" {
		return "step " + seen.Step
	}
	if seen.Failures > 0 {
		return seen.Message
	}
	return summaries[a.State].message
}
