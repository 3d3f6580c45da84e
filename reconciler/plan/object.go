package plan

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// DueObject is a due object that the control plane applies without a task for a node: an SKU, a
// policy, a role, an image, an environment, or a node as the fleet package lists it.
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
	// Source and Commit are set if a Git revision owns the object and empty if the API does.
	Source, Commit string

	AppliedGeneration int64 // 0: not applied yet
	AppliedEpoch      int64
	AppliedHash       string
	Gone              bool // the owning package has deleted it
	Failures          int  // to apply this generation and epoch
	Previous          Previous
	OpenDrift         []OpenDrift // drift that is open or ignored

	// Reports and Node are set for nodes only.
	Reports *ReportState
	Node    *NodeState
	Holding *Holding
}

// ReportState describes how recent and complete a node's reports are.
type ReportState struct {
	StaleAt   time.Time // zero: never reported
	Reachable bool      // as product/fleet has recorded it
}

// Objects compares desired objects with what the owning packages have applied. An object that could not be applied
// RetryLimit times is stalled until it changes or is requested again.
func Objects(due []DueObject, l Limits, now time.Time) Plan {
	var p Plan
	for _, d := range due {
		drift := d.evaluateDrift(l, now)
		act, needed := d.applyObject(drift.Heals)
		if d.Suspended.forbids(act, now) || l.RetryLimit > 0 && d.Failures >= l.RetryLimit {
			needed = false
		}
		if !needed {
			act, needed = d.reachability(now)
		}
		if !needed {
			act, needed = d.suspended(now)
		}
		p.Drift = append(p.Drift, drift.Moves...)
		p.request(act, needed, d.Previous, 0, l.RetryAfter, now)
		// A report moves this time without a write to the due set. A healthy fleet therefore costs
		// one check per staleness limit and not one per report.
		if s := d.Reports; s != nil {
			p.recheckAt(d.Kind, d.Object, s.StaleAt, now, "report turns stale")
		}
		p.recheckAt(d.Kind, d.Object, drift.RecheckAt, now, "a difference is no longer ignored")
		if h := d.Holding; h != nil {
			p.recheckAt(d.Kind, d.Object, h.NextHoldEnd, now, "a hold ends")
		}
		if d.Suspended != nil {
			p.recheckAt(d.Kind, d.Object, d.Suspended.Until, now, "its suspension ends")
		}
	}
	return p
}

// applyObject returns the action for the owning package, given the drift of the stored spec. The epoch is compared
// last: an operator's request to apply an unchanged object again is the only case with an equal spec.
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
		act.Source, act.Commit = "", "" // no revision caused it
		return act, true
	}
	return Action{}, false
}

// reachability returns the trigger for a node whose reports have stopped or resumed. A node that never reported is
// not unreachable: it waits for its enrolment.
func (d DueObject) reachability(now time.Time) (Action, bool) {
	s := d.Reports
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
		act.Automatic = d.shrinks(v)
		if act.Automatic {
			act.Source, act.Commit = d.Source, d.Commit
		}
	}
	return act
}
