package evidence

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/reconciler"
)

// The records have forms of their own, which docs/reference/evidence.md describes: a renamed field of a service must not change
// what an auditor reads. The field record names the form.

type requestedAllocation struct {
	Record        string            `json:"record"`
	URN           string            `json:"urn"`
	Name          string            `json:"name"`
	Tenant        ids.Tenant        `json:"tenant_id"`
	Project       ids.Project       `json:"project_id"`
	User          ids.User          `json:"user_id"`
	SKU           string            `json:"sku"`
	GPUs          int               `json:"gpus"`
	Region        string            `json:"region"`
	Node          ids.Node          `json:"node_id"`
	PriceMinor    money.Minor       `json:"price_minor"` // per GPU and hour
	Currency      string            `json:"currency"`
	Labels        map[string]string `json:"labels,omitempty"`
	Status        string            `json:"status"`
	Reason        string            `json:"reason,omitempty"`
	CorrelationID string            `json:"correlation_id"`
	CreatedAt     time.Time         `json:"created_at"`
	ActiveAt      *time.Time        `json:"active_at,omitempty"`
	ExpiresAt     *time.Time        `json:"expires_at,omitempty"`
	EndedAt       *time.Time        `json:"ended_at,omitempty"`
}

func (d Deps) viewAllocation(a allocation.Allocation) requestedAllocation {
	return requestedAllocation{
		"allocation", a.URN(d.Naming), a.Name, a.Tenant, a.Project, a.User, a.SKU, a.GPUs, a.Region, a.Node, a.PriceMinor, a.Currency, a.Labels, string(a.State), a.Reason,
		a.CorrelationID, a.CreatedAt.UTC(), utc(a.ActiveAt), utc(a.ExpiresAt), utc(a.EndedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

type object struct {
	Record     string          `json:"record"`
	Kind       desired.Kind    `json:"kind"`
	Scope      string          `json:"scope,omitempty"`
	Name       string          `json:"name"`
	UID        ids.Object      `json:"uid"`
	Generation int64           `json:"generation"`
	Fence      int64           `json:"fence"`
	SpecHash   string          `json:"spec_hash"`
	Spec       json.RawMessage `json:"spec"`
	Owner      string          `json:"owner"`
	UpdatedAt  time.Time       `json:"updated_at"`
	DeletedAt  *time.Time      `json:"deleted_at,omitempty"`
}

func viewObject(o desired.Object) object {
	return object{"object", o.Kind, o.Scope, o.Name, o.UID, o.Generation, o.Fence, o.SpecHash, o.Spec, string(o.Source.Owner), o.UpdatedAt.UTC(), utc(o.DeletedAt)}
}

type action struct {
	Record     string     `json:"record"`
	Plan       ids.Plan   `json:"plan_id"`
	At         time.Time  `json:"at"`
	Number     int        `json:"number"`
	Kind       string     `json:"kind"`
	Object     uuid.UUID  `json:"object_id"`
	Node       *uuid.UUID `json:"node_id,omitempty"`
	Verb       string     `json:"verb"`
	Trigger    string     `json:"trigger,omitempty"`
	Fence      int64      `json:"fence"`
	Generation int64      `json:"generation"`
	Epoch      int64      `json:"epoch"`
	Reason     string     `json:"reason"`
	Deferred   string     `json:"deferred,omitempty"` // why the check has deferred it
}

func viewAction(a reconciler.StoredAction) action {
	return action{"action", a.Plan, a.At.UTC(), a.Number, a.Kind, a.Object, a.Node, a.Verb, a.Event, a.Fence, a.Generation, a.Epoch, a.Reason, a.Held}
}

type job struct {
	Record     string     `json:"record"`
	ID         int64      `json:"id"`
	Kind       string     `json:"kind"`
	Reason     string     `json:"reason,omitempty"`
	State      string     `json:"state"`
	Attempts   int        `json:"attempts"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// viewJob leaves out the errors of a job and the servers that worked it, which a tenant must not read.
func viewJob(j *rivertype.JobRow) job {
	var args struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(j.EncodedArgs, &args) // arguments without a reason
	return job{"job", j.ID, j.Kind, args.Reason, string(j.State), j.Attempt, j.CreatedAt.UTC(), utc(j.FinalizedAt)}
}

type task struct {
	Record      string     `json:"record"`
	ID          ids.Task   `json:"id"`
	Node        ids.Node   `json:"node_id"`
	Type        string     `json:"type"`
	Fence       int64      `json:"fence"`
	Generation  int64      `json:"generation"`
	Attempt     int        `json:"attempt"`
	Status      string     `json:"status"`
	Code        string     `json:"code,omitempty"`
	Message     string     `json:"message,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
}

func viewTask(t nodetask.TaskSummary) task {
	return task{"task", t.ID, t.Node, t.Type, t.Fence, t.Generation, t.Attempt, t.Status, t.Code, t.Message, t.CreatedAt.UTC(), utc(t.DeliveredAt), utc(t.FinishedAt)}
}

type transition struct {
	Record  string    `json:"record"`
	Version int64     `json:"version"`
	Trigger string    `json:"trigger"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Actor   string    `json:"actor,omitempty"`
	At      time.Time `json:"at"`
}

func viewTransition(t allocation.Transition) transition {
	return transition{"transition", t.Version, t.Event, string(t.From), string(t.To), t.Reason, t.Message, t.Actor, t.At.UTC()}
}

type report struct {
	Record     string          `json:"record"`
	Node       ids.Node        `json:"node_id"`
	Phase      string          `json:"phase"`
	Fence      int64           `json:"fence"`
	Generation int64           `json:"generation"`
	SpecHash   string          `json:"spec_hash"`
	ObservedAt time.Time       `json:"observed_at"`
	Boot       int64           `json:"boot"`
	Sequence   int64           `json:"sequence"`
	Origin     json.RawMessage `json:"origin,omitempty"` // the signature of the node, its key and the signed bytes
}

func viewReport(a observed.Allocation) report {
	return report{"report", a.Node, string(a.Phase), a.Fence, a.Generation, a.SpecHash, a.ObservedAt.UTC(), a.Boot, a.Sequence, a.Origin}
}

type proof struct {
	Record    string          `json:"record"`
	Proof     json.RawMessage `json:"proof"`
	PublicKey []byte          `json:"public_key"`
	ProvedAt  time.Time       `json:"proved_at"`
}

type interval struct {
	Record string `json:"record"`
	metering.Evidence
}

type total struct {
	Record string `json:"record"`
	ledger.Sum
	Listed int `json:"listed"` // the last entries, which follow
}

type entry struct {
	Record      string      `json:"record"`
	ID          int64       `json:"id"`
	At          time.Time   `json:"at"`
	Transfer    uuid.UUID   `json:"transfer_id"`
	Kind        string      `json:"kind"`
	Reference   string      `json:"reference"`
	AmountMinor money.Minor `json:"amount_minor"`
	Currency    string      `json:"currency"`
}

func viewEntry(e ledger.Entry) entry {
	return entry{"entry", e.ID, e.At.UTC(), e.Transfer, string(e.Kind), e.Reference, e.AmountMinor, e.Currency}
}

type seal struct {
	Record string `json:"record"`
	ledger.Seal
}

type auditSeal struct {
	Record string `json:"record"`
	audit.Head
}

type auditRow struct {
	Record        string          `json:"record"`
	ID            uuid.UUID       `json:"id"`
	At            time.Time       `json:"at"`
	Actor         string          `json:"actor"`
	Action        string          `json:"action"`
	Target        string          `json:"target"`
	CorrelationID string          `json:"correlation_id"`
	Before        json.RawMessage `json:"before,omitempty"`
	After         json.RawMessage `json:"after,omitempty"`
}

func viewAudit(r audit.Record) auditRow {
	return auditRow{"audit", r.ID, r.At.UTC(), r.Actor, r.Action, r.Target, r.CorrelationID, r.Before, r.After}
}
