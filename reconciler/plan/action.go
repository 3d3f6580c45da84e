// Package plan compares what should be with what was last seen and answers with
// the actions that close the gap, each with its reason. It is pure: values in,
// values out; no clock, no database, no context.
package plan

import (
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Verb of an action. Ensure, Release and Probe are levels that a host or a room
// is brought to: twice equals once. Record writes down in the owning room what
// has been observed.
type Verb string

// The four verbs.
const (
	Ensure  Verb = "ensure"
	Release Verb = "release"
	Probe   Verb = "probe"
	Record  Verb = "record"
)

// Event is what a Record writes down: it happened.
type Trigger string

// The events that the loop observes; each room's machine has the last word.
const (
	NodeReady      Trigger = "node_ready"      // the host proved everything ordered in place
	CleanupProved  Trigger = "cleanup_proved"  // the host proved that nothing is left
	Exhausted      Trigger = "exhausted"       // attempts or time are used up
	Expired        Trigger = "expired"         // the lease has ended
	ReportsStale   Trigger = "reports_stale"   // a node's reports have stopped
	ReportsResumed Trigger = "reports_resumed" // and have begun again

	DrainStarted      Trigger = "drain_started"      // a node is to be empty by a time
	DrainCompleted    Trigger = "drain_completed"    // and nobody stands on it
	DrainCancelled    Trigger = "drain_cancelled"    // and it need not be, after all
	HoldExpired       Trigger = "hold_expired"       // a hold expired
	EvictionScheduled Trigger = "eviction_scheduled" // who stands on such a node is to leave it
	EvictionCancelled Trigger = "eviction_cancelled" // and may stay
	EvictionDue       Trigger = "eviction_due"       // and has not left in time
)

// Action is one step of a plan. It names everything that its execution needs to
// see whether it still stands, and leaves no choice to it.
type Action struct {
	Verb       Verb
	Kind       desired.Kind
	Object     uuid.UUID
	Node       ids.Node // zero when no host is concerned
	Event      Trigger  // of a Record
	Fence      int64
	Generation int64
	Epoch      int64
	Reason     string
	// Slots are the devices that an Ensure gives access to; check holds them apart.
	Slots []string
	// Judged says that the platform decided this by itself (drift, a leak, a
	// prune), not a user, a lease or a balance. The breaker counts these.
	Judged bool
	// Source and Commit are the revision that asks for a judged action; a person who
	// has approved it has taken the decision. Empty: no revision asks.
	Source, Commit string
	// Blind says that the host's present state is not known.
	Blind bool
}

// Previous is what an earlier plan asked for, until when it waits for the answer.
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
// host that has just started responds before its driver does and would otherwise use up all attempts
// within a second.
func (a Previous) covers(act Action, failures int, now time.Time) bool {
	return a.Verb == act.Verb && a.Event == act.Event && a.Fence == act.Fence && a.Generation == act.Generation &&
		(a.Failures == failures || failures > 1) && now.Before(a.Until)
}

// Next is when an object must be looked at again though nothing changes: every
// wait has a deadline, and this is where it stands.
type Next struct {
	Kind   desired.Kind
	Object uuid.UUID
	At     time.Time
	Reason string
	Asked  Previous // zero when nothing is awaited
}

// Plan is the answer to one look at the due set.
type Plan struct {
	Actions []Action
	Next    []Next
	Drift   []Drift
}

// Limits are the policy values that one plan reads, all of one revision.
type Limits struct {
	ProvisionDeadline time.Duration
	ReleaseDeadline   time.Duration
	ProvisionAttempts int
	ReleaseAttempts   int
	// AskAgain is how long an unanswered action waits before it is asked anew.
	AskAgain time.Duration
	// Drift is what drift of each kind leads to, unless the declaration says so
	// itself; a kind that is not in it is healed.
	Drift map[desired.Kind]Rule
}

// request adds an action unless it is already under way, and the time at which it
// is asked again if no answer comes.
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

// recheckAt adds a deadline, merged with an earlier look at the same object. One that
// has passed was answered by an action, whose own time is the next look: to look
// at once would spin until the action is done.
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
