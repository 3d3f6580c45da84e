// Package plan compares desired with observed state and returns the actions that close the
// difference, each with its reason. It is pure: it has no clock, no database and no context.
package plan

import (
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Verb is the type of an action. Ensure, Release and Probe describe a target, so executing them
// twice equals once. Record writes into the owning package what was observed.
type Verb string

// The four verbs.
const (
	Ensure  Verb = "ensure"
	Release Verb = "release"
	Probe   Verb = "probe"
	Record  Verb = "record"
)

// Trigger is the input of a state machine that a Record passes on.
type Trigger string

// Triggers that the loop observes. The state machine of the owning package decides whether a
// trigger applies.
const (
	NodeReady      Trigger = "node_ready"      // the node reported everything in place
	CleanupProved  Trigger = "cleanup_proved"  // the node proved that nothing is left
	Exhausted      Trigger = "exhausted"       // attempts or time are used up
	Expired        Trigger = "expired"         // the lease has ended
	ReportsStale   Trigger = "reports_stale"   // a node's reports have stopped
	ReportsResumed Trigger = "reports_resumed" // and have begun again

	DrainStarted      Trigger = "drain_started"      // a node is to be empty by a time
	DrainCompleted    Trigger = "drain_completed"    // and no live allocation is left
	DrainCancelled    Trigger = "drain_cancelled"    // and it need not be, after all
	HoldExpired       Trigger = "hold_expired"       // a hold expired
	EvictionScheduled Trigger = "eviction_scheduled" // an allocation must leave such a node
	EvictionCancelled Trigger = "eviction_cancelled" // and may stay
	EvictionDue       Trigger = "eviction_due"       // and has not left in time
)

// Action is one step of a plan. It contains everything that its execution needs to check whether
// the plan is still current, and leaves no decision to it.
type Action struct {
	Verb       Verb
	Kind       desired.Kind
	Object     uuid.UUID
	Node       ids.Node // zero when no node is involved
	Event      Trigger  // of a Record
	Fence      int64
	Generation int64
	Epoch      int64
	Reason     string
	// Slots are the devices that an Ensure gives access to. The plan check rejects a plan that
	// gives a slot to two allocations.
	Slots []string
	// Automatic marks a decision of the platform (drift, a leak, a prune) in contrast to one of a
	// user, a TTL or a balance. The breaker counts only automatic actions.
	Automatic bool
	// Source and Commit identify the revision that caused an automatic action. After an operator
	// has approved the revision, the breaker does not count the action. They are empty if no
	// revision caused it.
	Source, Commit string
	// Unobserved marks an action without knowledge of the node's present state.
	Unobserved bool
}

// Previous is the request of an earlier plan and the time until which it may still be answered.
type Previous struct {
	Verb       Verb
	Event      Trigger
	Fence      int64
	Generation int64
	Failures   int
	Until      time.Time
}

// covers reports whether it is too early to request act again: a is the same request and is still
// being executed, or it has failed more than once.
//
// The first failure is retried at once. After each further failure the rest of the time passes. A
// node that has just started responds before its driver does and would otherwise use up all
// attempts within a second.
func (a Previous) covers(act Action, failures int, now time.Time) bool {
	return a.Verb == act.Verb && a.Event == act.Event && a.Fence == act.Fence && a.Generation == act.Generation &&
		(a.Failures == failures || failures > 1) && now.Before(a.Until)
}

// Next is the time of the next check of an unchanged object. Every wait has a deadline, and Next is
// the earliest.
type Next struct {
	Kind     desired.Kind
	Object   uuid.UUID
	At       time.Time
	Reason   string
	Previous Previous // zero when nothing is awaited
}

// Plan is the result for one batch of the due set.
type Plan struct {
	Actions []Action
	Next    []Next
	Drift   []Drift
}

// Deadlines are the time limits of provisioning and of a release.
type Deadlines struct{ Provision, Release time.Duration }

// Limits are the policy values that one plan reads, all of one revision.
type Limits struct {
	Deadlines

	// SKUs contains the SKUs with other time limits.
	SKUs              map[string]Deadlines
	ProvisionAttempts int
	ReleaseAttempts   int
	// RetryLimit is the number of failures after which an object is stalled; 0: never.
	RetryLimit int
	// RetryAfter is the time after which an unanswered action is requested again.
	RetryAfter time.Duration
	// Drift maps each kind to its drift rule. The object may override the rule. A kind that is
	// missing is healed.
	Drift map[desired.Kind]Rule
}

// request adds an action unless it is under way already, and the time at which it is repeated if no
// response arrives.
func (p *Plan) request(act Action, needed bool, asked Previous, failures int, again time.Duration, now time.Time) {
	if !needed {
		return
	}
	if !asked.covers(act, failures, now) {
		asked = Previous{act.Verb, act.Event, act.Fence, act.Generation, failures, now.Add(again)}
		p.Actions = append(p.Actions, act)
	}
	p.Next = append(p.Next, Next{act.Kind, act.Object, asked.Until, "waits for " + string(act.Verb), asked})
}

// retain stores a request for as long as the node executes it. If the task fails, the next plan must
// know how soon it may request the action again.
func (p *Plan) retain(kind desired.Kind, object uuid.UUID, previous Previous, now time.Time) {
	if previous.Until.After(now) {
		p.Next = append(p.Next, Next{kind, object, previous.Until, "waits for " + string(previous.Verb), previous})
	}
}

// recheckAt adds a deadline and merges it with an earlier one for the same object. A deadline in
// the past was answered by an action, and the action's own time is the next check. An immediate
// check would spin until the action is done.
func (p *Plan) recheckAt(kind desired.Kind, object uuid.UUID, at, now time.Time, reason string) {
	if !at.After(now) {
		return
	}
	if n := len(p.Next); n > 0 && p.Next[n-1].Object == object {
		if at.Before(p.Next[n-1].At) {
			p.Next[n-1].At, p.Next[n-1].Reason = at, reason
		}
		return
	}
	p.Next = append(p.Next, Next{Kind: kind, Object: object, At: at, Reason: reason})
}

// Merge puts plans for different objects together.
func Merge(plans ...Plan) (all Plan) {
	for _, p := range plans {
		all.Actions = append(all.Actions, p.Actions...)
		all.Next = append(all.Next, p.Next...)
		all.Drift = append(all.Drift, p.Drift...)
	}
	return all
}
