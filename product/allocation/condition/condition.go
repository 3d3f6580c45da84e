// Package condition describes an allocation to people and programs by its state and the last report of its node. It reads
// nothing.
package condition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
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
	// NoSSHKey reports that no registered key opens the allocation.
	NoSSHKey bool
	// NoRelay reports that the agent of the node is too old to open connections to the platform.
	NoRelay bool
	// Mounts are the states of the mounts.
	Mounts []protocol.MountReport
	// Unrestricted reports that the agent of the node is too old to apply the policies for logins.
	Unrestricted bool
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
var summaries = map[allocation.State]struct{ ready, reason, message string }{
	allocation.Requested:     {isFalse, "Progressing", "the task is not in the mailbox of the node yet"},
	allocation.Provisioning:  {isFalse, "Progressing", "the node is preparing it"},
	allocation.Active:        {isTrue, "Succeeded", "ready to use"},
	allocation.Releasing:     {isFalse, "Progressing", "the node is cleaning up"},
	allocation.Released:      {isTrue, "Succeeded", "released, and proved clean"},
	allocation.Failed:        {isFalse, "Failed", "provisioning is exhausted; nothing is charged"},
	allocation.ReleaseFailed: {isFalse, "Failed", "the release is exhausted; billing has ended and the slots are quarantined"},
}

// Of returns the conditions of an allocation, the summary first.
func Of(a allocation.Allocation, seen Observed) []Condition {
	list := []Condition{ready(a, seen)}
	switch a.State {
	case allocation.Requested, allocation.Provisioning, allocation.Releasing:
		if !a.Queued() {
			list = append(list, newCondition(a, "Reconciling", isTrue, progressReason(seen), progress(a, seen)))
		}
	case allocation.Failed, allocation.ReleaseFailed:
		list = append(list, newCondition(a, "Stalled", isTrue, "Failed", a.Message))
	case allocation.Active, allocation.Released:
	}
	if a.State == allocation.Active && seen.Phase == "broken" {
		list = append(list, newCondition(a, "Drifted", isTrue, "Progressing", seen.Message))
	}
	if isLive(a) && a.EvictAt != nil {
		list = append(list, pendingRelease(a))
	} else if a.State == allocation.Active && a.IdleReleaseAt != nil {
		list = append(list, newCondition(a, "ReleaseScheduled", isTrue, "Idle",
			fmt.Sprintf("its GPUs are idle: the platform releases it at %s, unless one is used before", a.IdleReleaseAt.UTC().Format(time.RFC3339))))
	}
	if a.State == allocation.Active && seen.Fault != "" {
		c := newCondition(a, "GPUHealthy", isFalse, "HealthCheckFailed", seen.Fault)
		c.LastTransitionTime = seen.FaultSince
		list = append(list, c)
	}
	if a.State == allocation.Active && seen.Unrestricted {
		list = append(list, newCondition(a, "AccessRestricted", isFalse, "AgentOutdated",
			"the agent of the node is too old to apply the policies for logins: it accepts them from all addresses, and forwards nothing"))
	}
	if len(a.Mounts) > 0 && a.State == allocation.Active {
		list = append(list, mounted(a, seen))
	}
	list = append(list,
		step(a, "NodeAssigned", a.Node != ids.Node{}),
		step(a, "Provisioned", a.ActiveAt != nil),
		access(a, seen),
		charging(a),
	)
	for i := range list {
		list[i].ObservedGeneration = seen.Generation
	}
	return list
}

func ready(a allocation.Allocation, seen Observed) Condition {
	s := summaries[a.State]
	c := newCondition(a, "Ready", s.ready, s.reason, s.message)
	switch {
	case a.Queued():
		c.Reason, c.Message = "Queued", "waits for capacity"
	case a.State == allocation.Active && seen.Phase == "broken":
		c.Status, c.Reason, c.Message = isFalse, "Progressing", "drifted and being healed: "+seen.Message
	case a.State == allocation.Active && !seen.Reported:
		c.Status, c.Reason, c.Message = unclear, "StaleReport", "the node has not reported the allocation"
	}
	return c
}

func newCondition(a allocation.Allocation, kind, status, reason, message string) Condition {
	return Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: a.StatusAt}
}

func step(a allocation.Allocation, kind string, done bool) Condition {
	if done {
		return newCondition(a, kind, isTrue, "Succeeded", "")
	}
	reason := "Progressing"
	if a.State != allocation.Requested && a.State != allocation.Provisioning {
		reason = "Suspended"
	}
	return newCondition(a, kind, isFalse, reason, "")
}

// access returns the condition of logins. Without a key only a certificate opens the allocation.
func access(a allocation.Allocation, seen Observed) Condition {
	open := a.State == allocation.Active && seen.Phase == "ready"
	switch {
	case open && seen.NoRelay:
		return newCondition(a, "AccessReady", isFalse, "AgentOutdated",
			"the agent of the node is too old for terminals and gpuaas ssh: they work when the operator has updated it")
	case open && seen.NoSSHKey:
		return newCondition(a, "AccessReady", isFalse, "NoSSHKey",
			"no registered SSH key opens the allocation: add one with gpuaas keys add, or use gpuaas ssh")
	}
	return step(a, "AccessReady", a.State == allocation.Active && seen.Phase == "ready")
}

// mounted returns the condition of the mounts: the first that is not in place is named. A mount without a report is not in
// place.
func mounted(a allocation.Allocation, seen Observed) Condition {
	if !seen.Reported {
		return newCondition(a, "StorageMounted", unclear, "StaleReport", "the node has not reported the allocation")
	}
	for _, m := range a.Mounts {
		i := slices.IndexFunc(seen.Mounts, func(r protocol.MountReport) bool { return r.At == m.At })
		switch {
		case i < 0:
			return newCondition(a, "StorageMounted", isFalse, "Progressing", "the node has not reported the mount "+m.At)
		case !seen.Mounts[i].Mounted:
			return newCondition(a, "StorageMounted", isFalse, "MountFailed", m.At+": "+seen.Mounts[i].Message)
		}
	}
	return newCondition(a, "StorageMounted", isTrue, "Succeeded", "")
}

// charging returns the condition of charging, with the reason why an active allocation is not charged.
func charging(a allocation.Allocation) Condition {
	message, paused := map[metering.Cause]string{
		metering.ObservationStale: "the node does not report; nothing is charged, and charges since its last report are credited",
		metering.NodeUnhealthy:    "the node or one of its GPUs is unhealthy; nothing is charged",
	}[a.Paused]
	if !paused {
		return step(a, "Metering", a.State == allocation.Active)
	}
	return newCondition(a, "Metering", isFalse, "Suspended", message)
}

func progressReason(seen Observed) string {
	if seen.Failures > 0 {
		return "ProgressingWithRetry"
	}
	return "Progressing"
}

func progress(a allocation.Allocation, seen Observed) string {
	if seen.Step != "" {
		return "step " + seen.Step
	}
	if seen.Failures > 0 {
		return seen.Message
	}
	return summaries[a.State].message
}

// pendingRelease is the condition of one that is to leave its node.
func pendingRelease(a allocation.Allocation) Condition {
	whose := "the platform"
	if strings.HasPrefix(a.EvictFor, "user:") || strings.HasPrefix(a.EvictFor, "service-account:") {
		whose = "an operator"
	}
	return newCondition(a, "ReleaseScheduled", isTrue, "NodeDrain", fmt.Sprintf("its node is to be empty (%s): %s releases it at %s, unless you do so before",
		a.EvictReason, whose, a.EvictAt.UTC().Format(time.RFC3339)))
}

// isLive reports whether the allocation is on its node and no release was requested.
func isLive(a allocation.Allocation) bool {
	return a.State == allocation.Requested || a.State == allocation.Provisioning || a.State == allocation.Active
}
