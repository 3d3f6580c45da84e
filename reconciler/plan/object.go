package plan

import (
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// DueObject is a due declaration that a room carries out without a host: a SKU,
// a policy, a role, an image, an environment, or a node as the fleet lists it.
type DueObject struct {
	Kind       desired.Kind
	Object     uuid.UUID
	Generation int64 // 0: not declared
	Epoch      int64
	SpecHash   string
	Deleted    bool

	AppliedGeneration int64 // 0: no room has carried it out yet
	AppliedHash       string
	Gone              bool // the room has let it go
	Asked             Asked

	// Silence is set for nodes only.
	Silence *Silence
}

// Silence is what the loop knows of a node's reports.
type Silence struct {
	StaleAt   time.Time // zero: never reported
	Reachable bool      // as the owning room has recorded it
}

// Objects compares declarations with what their rooms have carried out.
func Objects(due []DueObject, l Limits, now time.Time) Plan {
	var p Plan
	for _, d := range due {
		act, needed := d.carry()
		if !needed {
			act, needed = d.reachability(now)
		}
		p.ask(act, needed, d.Asked, 0, l.AskAgain, now)
		// Fresh reports move the time without touching the due set, so that a
		// healthy fleet is looked at once per silence limit, not once per report.
		if s := d.Silence; s != nil {
			p.look(d.Kind, d.Object, s.StaleAt, now, "report turns stale")
		}
	}
	return p
}

func (d DueObject) carry() (Action, bool) {
	switch {
	case d.Generation == 0:
		return Action{}, false
	case d.Deleted && !d.Gone:
		return d.action(Release, "no longer declared"), true
	case !d.Deleted && (d.Gone || d.AppliedGeneration < d.Generation || d.AppliedHash != d.SpecHash):
		return d.action(Ensure, "declared"), true
	}
	return Action{}, false
}

func (d DueObject) reachability(now time.Time) (Action, bool) {
	s := d.Silence
	if s == nil || s.StaleAt.IsZero() || d.AppliedGeneration == 0 {
		return Action{}, false
	}
	fresh := now.Before(s.StaleAt)
	if fresh == s.Reachable {
		return Action{}, false
	}
	act := d.action(Record, "reports have stopped")
	act.Event = WentSilent
	if fresh {
		act.Event, act.Reason = CameBack, "reports have begun again"
	}
	return act, true
}

func (d DueObject) action(v Verb, reason string) Action {
	act := Action{Verb: v, Kind: d.Kind, Object: d.Object, Generation: d.Generation, Epoch: d.Epoch, Reason: reason}
	if d.Kind == desired.KindNode {
		act.Node = ids.Node{UUID: d.Object}
	}
	return act
}
