package change

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Subjects of the events that this package emits.
const (
	SubjectDecided       = "fleet.plan_decided"
	SubjectObjectChanged = "fleet.object_changed"
)

// Decided is the payload of fleet.plan_decided.
type Decided struct {
	Plan    string `json:"plan_id"`
	Status  string `json:"status"`
	Hash    string `json:"hash"`
	Source  string `json:"source"`
	Commit  string `json:"commit"`
	Summary string `json:"summary"`
	By      string `json:"decided_by"`
	Reason  string `json:"reason"`
}

// Changed is the payload of fleet.object_changed.
type Changed struct {
	Object     string       `json:"object_id"`
	Kind       desired.Kind `json:"kind"`
	Name       string       `json:"name"`
	Change     string       `json:"change"`
	Generation int64        `json:"generation"`
	Version    int64        `json:"version"`
	By         string       `json:"changed_by"`
	Reason     string       `json:"reason"`
}

// decidedEvent: a plan is approved first, and has one end.
func (s *Service) decidedEvent(p Stored, by identity.Caller, reason string) event.Draft {
	sequence := int64(2)
	if p.Status == StatusApproved {
		sequence = 1
	}
	return event.Draft{
		Stream: event.StreamFleet, Subject: SubjectDecided, Aggregate: "plan:" + p.ID.String(), Sequence: sequence,
		URN: s.Naming.Name("", "", "plan", p.ID.String()).String(), CorrelationID: by.CorrelationID, Trace: by.Trace,
		Payload: Decided{
			Plan: p.ID.String(), Status: p.Status, Hash: p.Hash, Source: p.Source, Commit: p.Commit, Summary: p.Plan.Summary, By: by.Actor(), Reason: reason,
		},
	}
}

func (s *Service) changedEvent(o desired.Object, what string, by identity.Caller, reason string) event.Draft {
	return event.Draft{
		Stream: event.StreamFleet, Subject: SubjectObjectChanged, Aggregate: "object:" + o.UID.String(), Sequence: o.ResourceVersion,
		URN: s.Naming.Name("", "", o.Kind.ResourceType(), o.UID.String()).String(), CorrelationID: by.CorrelationID, Trace: by.Trace,
		Payload: Changed{
			Object: o.UID.String(), Kind: o.Kind, Name: o.Name, Change: what, Generation: o.Generation, Version: o.ResourceVersion, By: by.Actor(), Reason: reason,
		},
	}
}

// record describes one change for its audit row and its event.
type record struct {
	audit.Entry

	events []event.Draft
}

func (r record) queue(b *pgx.Batch, by identity.Caller) {
	r.By = by.Cause()
	audit.Queue(b, r.Entry)
	for _, f := range r.events {
		event.Queue(b, f)
	}
}
