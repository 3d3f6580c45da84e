package change

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/fleet"
)

const (
	isTrue  = "True"
	isFalse = "False"
	unclear = "Unknown"
)

// stateOf returns the state of a desired object: whether the observed state is that of its generation,
// and how healthy it is.
func stateOf(o desired.Object, seen ObservedObject) oapi.ObjectStatus {
	s := current{o: o, observed: seen, sync: oapi.ObjectStatusSyncUnknown, health: oapi.ObjectStatusHealthUnknown}
	if o.Kind == desired.KindAllocation {
		s.asAllocation()
	} else {
		s.asCarried()
	}
	if o.Kind == desired.KindNode {
		s.asNode()
	}
	s.asDrifting()
	if len(seen.RestartFor) > 0 {
		s.add("RestartRequired", isTrue, "Progressing", "the server reads "+strings.Join(seen.RestartFor, ", ")+" when it starts")
	}
	if held := o.Suspended; held != nil {
		s.health = oapi.ObjectStatusHealthSuspended
		s.since = held.At
		s.add("Suspended", isTrue, "Suspended", suspensionText(*held))
	}
	return oapi.ObjectStatus{ObservedGeneration: s.generation, Sync: s.sync, Health: s.health, Conditions: objectConditions(s.conditions)}
}

// suspensionText returns the text of a suspension: actor, reason and end.
func suspensionText(h desired.Suspension) string {
	until := "until it is resumed"
	if h.Until != nil {
		until = "until " + response.Timestamp(*h.Until)
	}
	return "by " + h.By + ", " + until + ": " + h.Reason
}

// current is a state that is being computed.
type current struct {
	o        desired.Object
	observed ObservedObject

	generation int64
	sync       oapi.ObjectStatusSync
	health     oapi.ObjectStatusHealth
	since      time.Time
	conditions []desired.Condition
}

func (s *current) add(kind, status, reason, message string) {
	s.conditions = append(s.conditions, desired.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.generation, LastTransitionTime: s.since,
	})
}

// asCarried returns what all kinds with a service have.
func (s *current) asCarried() {
	c := s.observed.AppliedSpec
	if c != nil {
		s.generation, s.since = c.Generation, c.ObservedAt
	}
	if c != nil && c.Generation == s.o.Generation && c.SpecHash == s.o.SpecHash && !c.Gone {
		s.sync, s.health = oapi.ObjectStatusSyncSynced, oapi.ObjectStatusHealthHealthy
		if why := noEffect[s.o.Kind]; why != "" {
			s.add("Ready", isTrue, "NotInForce", why)
			return
		}
		s.add("Ready", isTrue, "Succeeded", "")
		return
	}
	s.sync, s.health = oapi.ObjectStatusSyncOutOfSync, oapi.ObjectStatusHealthProgressing
	if c != nil && s.observed.RetryLimit > 0 && c.Of(s.o.Generation, s.o.Epoch) >= s.observed.RetryLimit {
		s.health = oapi.ObjectStatusHealthDegraded
		s.add("Ready", isFalse, "Failed", c.Failure)
		s.add("Stalled", isTrue, "Failed", fmt.Sprintf("%s was not applied after %d attempts; change it, or run gpuaas reconcile: %s", s.o.Key(), c.Failures, c.Failure))
		return
	}
	s.add("Ready", isFalse, "Progressing", "the change is being applied")
	s.add("Reconciling", isTrue, "Progressing", "the change is being applied")
}

// The lives of a node in which it is on its way, by what it waits for.
var onItsWay = map[string]string{
	"declared": "", "commissioning": "is being commissioned", "enrolled": "waits for its first full report",
	"draining": "is being drained", "drained": "is drained", "retired": "is retired",
}

// noEffect states why an object of a kind has no effect.
var noEffect = map[desired.Kind]string{
	desired.KindOSImage: "no driver installs images; each node runs the OS that it has",
}

// asNode adds the state of a node. An applied spec does not prove that the node works.
func (s *current) asNode() {
	n := s.observed.Node
	if n == nil {
		s.health = oapi.ObjectStatusHealthMissing
		s.ready(isFalse, "Progressing", "the node does not exist yet")
		return
	}
	s.since = n.UpdatedAt
	s.axes(*n)
	switch waits, underway := onItsWay[n.Lifecycle]; {
	case underway:
		if n.Lifecycle == "declared" {
			waits = waitsFor(s.o)
		}
		s.health = oapi.ObjectStatusHealthProgressing
		s.ready(isFalse, "Progressing", cmp.Or(n.Message, waits))
	case n.Lifecycle == "offline", n.Reachability != "reachable":
		s.health = oapi.ObjectStatusHealthDegraded
		s.ready(unclear, "StaleReport", "the node has not reported; the state of its allocations is unknown")
	case n.Health != "healthy":
		s.health = oapi.ObjectStatusHealthDegraded
		s.ready(isFalse, "HealthCheckFailed", cmp.Or(n.Message, "is "+n.Health))
	}
}

// waitsFor states who must act before a declared node can enrol.
func waitsFor(o desired.Object) string {
	var spec desired.Node
	if json.Unmarshal(o.Spec, &spec) == nil && spec.Onboarding == "simulated" {
		return fmt.Sprintf("node %s has not enrolled: only gpuaas up runs the agents of simulated nodes", o.Name)
	}
	return fmt.Sprintf("node %s has not enrolled: an operator must install its agent: gpuaas node re-enrol prints the command", o.Name)
}

func (s *current) axes(n fleet.Node) {
	_, underway := onItsWay[n.Lifecycle]
	reachable := n.Reachability == "reachable"
	s.axis("Enrolled", n.Lifecycle != "declared" && n.Lifecycle != "commissioning", "Progressing")
	s.axis("AgentReachable", reachable, "StaleReport")
	s.axis("InSync", s.sync == oapi.ObjectStatusSyncSynced && len(s.observed.Drifts) == 0, "Progressing")
	s.axis("GPUHealthy", n.Health == "healthy", "HealthCheckFailed")
	s.axis("Schedulable", !underway && reachable && !n.Cordoned && n.Health != "unhealthy", "Suspended")
}

func (s *current) axis(kind string, holds bool, otherwise string) {
	if holds {
		s.add(kind, isTrue, "Succeeded", "")
		return
	}
	s.add(kind, isFalse, otherwise, "")
}

// ready corrects the summary, which is the first.
func (s *current) ready(status, reason, message string) {
	s.conditions[0].Status, s.conditions[0].Reason, s.conditions[0].Message = status, reason, message
	s.conditions[0].LastTransitionTime = s.since
}

// healths of allocations, by their state; all others are on their way.
var healths = map[allocation.State]oapi.ObjectStatusHealth{
	allocation.Active:        oapi.ObjectStatusHealthHealthy,
	allocation.Released:      oapi.ObjectStatusHealthMissing,
	allocation.Failed:        oapi.ObjectStatusHealthDegraded,
	allocation.ReleaseFailed: oapi.ObjectStatusHealthDegraded,
}

// asAllocation adds the state of an allocation as its tenant can read it.
func (s *current) asAllocation() {
	a := s.observed.Allocation
	if a == nil {
		s.add("Ready", unclear, "Progressing", "")
		return
	}
	s.generation, s.since = s.observed.Host.Generation, a.StatusAt
	s.sync, s.health = oapi.ObjectStatusSyncOutOfSync, cmp.Or(healths[a.State], oapi.ObjectStatusHealthProgressing)
	switch {
	case a.State == allocation.Released, a.State == allocation.Active && s.generation == s.o.Generation:
		s.sync = oapi.ObjectStatusSyncSynced
	case a.State == allocation.Active && !s.observed.Host.Reported:
		s.sync = oapi.ObjectStatusSyncUnknown
	}
	if a.State == allocation.Active && s.observed.Host.Phase == "broken" {
		s.sync, s.health = oapi.ObjectStatusSyncOutOfSync, oapi.ObjectStatusHealthDegraded
	}
	for _, c := range condition.Of(*a, s.observed.Host) {
		s.conditions = append(s.conditions, desired.Condition(c))
	}
}

// asDrifting names the fields in which it differs.
func (s *current) asDrifting() {
	if len(s.observed.Drifts) == 0 {
		return
	}
	s.sync = oapi.ObjectStatusSyncOutOfSync
	s.conditions = slices.DeleteFunc(s.conditions, func(c desired.Condition) bool { return c.Type == "Drifted" })
	fields := make([]string, len(s.observed.Drifts))
	since := s.observed.Drifts[0].OpenedAt
	for i, d := range s.observed.Drifts {
		if fields[i] = d.Field; d.OpenedAt.Before(since) {
			since = d.OpenedAt
		}
	}
	s.since = since
	s.add("Drifted", isTrue, "Progressing", strings.Join(fields, ", "))
}
