package plan

import (
	"strings"
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
	Name       string
	Generation int64 // 0: not declared
	Epoch      int64
	SpecHash   string
	Deleted    bool
	Suspended  *Suspension
	// Drift and Ignore are its annotations of these.
	Drift, Ignore string
	// Source and Commit are set where a revision declares it, and no person.
	Source, Commit string

	AppliedGeneration int64 // 0: no room has carried it out yet
	AppliedEpoch      int64
	AppliedHash       string
	Gone              bool // the room has let it go
	Asked             Previous
	Standing          []OpenDrift // drift that is open or ignored

	// Silence and Machine are set for nodes only.
	Silence *ReportState
	Machine *Machine
	Holding *Holding
}

// ReportState is what the loop knows of a node's reports.
type ReportState struct {
	StaleAt   time.Time // zero: never reported
	Reachable bool      // as the owning room has recorded it
}

// Objects compares declarations with what their rooms have carried out.
func Objects(due []DueObject, l Limits, now time.Time) Plan {
	var p Plan
	for _, d := range due {
		judgement := d.evaluateDrift(l, now)
		act, needed := d.applyObject(judgement.Heals)
		if d.Suspended.forbids(act, now) {
			needed = false
		}
		if !needed {
			act, needed = d.reachability(now)
		}
		if !needed {
			act, needed = d.suspended(now)
		}
		p.Drift = append(p.Drift, judgement.Moves...)
		p.request(act, needed, d.Asked, 0, l.AskAgain, now)
		// Fresh reports move the time without touching the due set, so that a
		// healthy fleet is looked at once per silence limit, not once per report.
		if s := d.Silence; s != nil {
			p.recheckAt(d.Kind, d.Object, s.StaleAt, now, "report turns stale")
		}
		p.recheckAt(d.Kind, d.Object, judgement.LookAt, now, "a difference is no longer ignored")
		if h := d.Holding; h != nil {
			p.recheckAt(d.Kind, d.Object, h.LapsesAt, now, "a hold ends")
		}
		if d.Suspended != nil {
			p.recheckAt(d.Kind, d.Object, d.Suspended.Until, now, "its suspension ends")
		}
	}
	return p
}

// applyObject is what the room must do, given what has drifted of what it keeps.
func (d DueObject) applyObject(drifted []string) (Action, bool) {
	switch {
	case d.Generation == 0:
		return Action{}, false
	case d.Deleted && !d.Gone:
		return d.action(Release, "no longer desired"), true
	case d.Deleted:
		return Action{}, false
	case d.Gone || d.AppliedGeneration < d.Generation || d.AppliedHash != d.SpecHash:
		return d.action(Ensure, "declared"), true
	case d.AppliedEpoch < d.Epoch:
		return d.action(Ensure, "requested again"), true
	}
	if kept := specs(drifted); len(kept) > 0 {
		act := d.action(Ensure, "drifted: "+strings.Join(kept, ", "))
		act.Source, act.Commit = "", "" // no revision asks for it
		return act, true
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
	act.Event = ReportsStale
	if fresh {
		act.Event, act.Reason = ReportsResumed, "reports have begun again"
	}
	return act, true
}

func (d DueObject) action(v Verb, reason string) Action {
	act := Action{Verb: v, Kind: d.Kind, Object: d.Object, Generation: d.Generation, Epoch: d.Epoch, Reason: reason}
	if d.Kind == desired.KindNode {
		act.Node = ids.Node{UUID: d.Object}
		act.Judged = d.shrinks(v)
		if act.Judged {
			act.Source, act.Commit = d.Source, d.Commit
		}
	}
	return act
}
