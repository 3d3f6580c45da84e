package plan

import (
	"time"

	"github.com/gpuaas/gpuaas/desired"
)

// Holding is what holds mean for a node, beside what its declaration says.
type Holding struct {
	Lifecycle string
	Retiring  bool      // it drains because it is declared no more, and then retires
	LeaveAt   time.Time // by when nobody may stand on it; zero: it does not drain
	LapsesAt  time.Time // the next end of a hold; zero: none ends by itself
	Occupied  bool      // a slot of it is held, or is not proved clean
}

// suspended is what the inventory must write down of a node's holds: it follows what
// stands, one step at a time.
func (d DueObject) suspended(now time.Time) (Action, bool) {
	h := d.Holding
	if h == nil || d.AppliedGeneration == 0 || d.Gone || h.Retiring {
		return Action{}, false
	}
	drains := !h.LeaveAt.IsZero()
	act := d.action(Record, "")
	switch {
	case !h.LapsesAt.IsZero() && !now.Before(h.LapsesAt):
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

// Eviction is by when an allocation is to be off its node, whose word that is, and why.
type Eviction struct {
	At      time.Time
	By, Why string
}

// evictionDue is what follows from the node's drain: its tenant is told, and at the
// deadline it is released. Nobody asked for that but whoever drains: the breaker
// counts these releases.
func (a allocation) evictionDue() (Action, bool) {
	if !a.isDesired() || a.Progress == nil {
		return Action{}, false
	}
	switch told := a.Progress.Leave; {
	case a.Leave == nil && told != (Eviction{}):
		return a.event(EvictionCancelled, "its node need not be empty")
	case a.Leave == nil:
		return Action{}, false
	case !a.Leave.same(told):
		return a.event(EvictionScheduled, "its node is to be empty")
	case !a.now.Before(a.Leave.At):
		act, needed := a.event(EvictionDue, "its node is to be empty")
		act.Judged = true
		return act, needed
	}
	return Action{}, false
}

func (l Eviction) same(o Eviction) bool { return l.At.Equal(o.At) && l.By == o.By && l.Why == o.Why }

func (p *Plan) recheckEviction(a allocation) {
	if a.Leave != nil && a.isDesired() {
		p.recheckAt(desired.KindAllocation, a.ID.UUID, a.Leave.At, a.now, "its node is to be empty")
	}
}
