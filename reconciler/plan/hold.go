package plan

import (
	"time"

	"github.com/gpuaas/gpuaas/desired"
)

// Holding is the effect of operator holds on a node, in addition to its spec.
type Holding struct {
	Lifecycle   string
	Retiring    bool      // it drains because it is declared no more, and then retires
	EvictAt     time.Time // deadline of the drain; zero: it does not drain
	NextHoldEnd time.Time // the next end of a hold; zero: none ends by itself
	Occupied    bool      // a slot is claimed, or is not proved clean
}

// suspended returns the trigger that the fleet package must record for a node's holds. It follows
// the stored lifecycle one transition at a time. A retiring node is left to its retirement, which drains it as well.
func (d DueObject) suspended(now time.Time) (Action, bool) {
	h := d.Holding
	if h == nil || d.AppliedGeneration == 0 || d.Gone || h.Retiring {
		return Action{}, false
	}
	drains := !h.EvictAt.IsZero()
	act := d.action(Record, "")
	switch {
	case !h.NextHoldEnd.IsZero() && !now.Before(h.NextHoldEnd):
		act.Event, act.Reason = HoldExpired, "a hold expired"
	case drains && (h.Lifecycle == "active" || h.Lifecycle == "offline"):
		act.Event, act.Reason = DrainStarted, "is to be empty"
	case drains && h.Lifecycle == "draining" && !h.Occupied:
		act.Event, act.Reason = DrainCompleted, "no allocation uses the node"
	case drains && h.Lifecycle == "drained" && h.Occupied:
		act.Event, act.Reason = DrainStarted, "is not empty after all"
	case !drains && (h.Lifecycle == "draining" || h.Lifecycle == "drained"):
		act.Event, act.Reason = DrainCancelled, "need not be empty"
	default:
		return Action{}, false
	}
	return act, true
}

// Eviction is the forced end of an allocation on a draining node: the deadline, the operator who
// started the drain, and the reason.
type Eviction struct {
	At      time.Time
	By, Why string
}

// evictionDue returns the action that follows from the node's drain: announce the eviction, and
// release at the deadline. The tenant has not requested the release, so the breaker counts it.
func (a allocation) evictionDue() (Action, bool) {
	if !a.isDesired() || a.Progress == nil {
		return Action{}, false
	}
	switch announced := a.Progress.Eviction; {
	case a.Eviction == nil && announced != (Eviction{}):
		return a.event(EvictionCancelled, "its node need not be empty")
	case a.Eviction == nil:
		return Action{}, false
	// The tenant is notified of each change of time, operator or reason before the deadline applies, so a deadline that
	// was moved to the past is announced first.
	case !a.Eviction.same(announced):
		return a.event(EvictionScheduled, "its node is to be empty")
	case !a.now.Before(a.Eviction.At):
		act, needed := a.event(EvictionDue, "its node is to be empty")
		act.Automatic = true
		return act, needed
	}
	return Action{}, false
}

// same compares the deadlines as instants, because == also compares their time zones.
func (l Eviction) same(o Eviction) bool { return l.At.Equal(o.At) && l.By == o.By && l.Why == o.Why }

func (p *Plan) recheckEviction(a allocation) {
	if a.Eviction != nil && a.isDesired() {
		p.recheckAt(desired.KindAllocation, a.ID.UUID, a.Eviction.At, a.now, "its node is to be empty")
	}
}
