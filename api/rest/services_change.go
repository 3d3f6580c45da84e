package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler"
)

// What the handlers ask about declarations and of those who change them.
type (
	// Objects reads what was declared.
	Objects interface {
		Get(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, error)
		List(ctx context.Context, kind desired.Kind, after string, limit int) ([]desired.Object, error)
	}
	// Revisions reads what became of commits.
	Revisions interface {
		Revisions(ctx context.Context, f revision.RevisionFilter, below int64, limit int) ([]revision.Revision, error)
		RevisionAt(ctx context.Context, q pg.Queryer, number int64) (revision.Revision, error)
		Pointer(ctx context.Context, source string) (revision.Pointer, error)
	}
	// Sources reads where declarations are kept.
	Sources interface {
		Sources(ctx context.Context, after string, limit int) ([]revision.SourceState, error)
		SourceByName(ctx context.Context, q pg.Queryer, name string) (revision.SourceState, error)
	}
	// Desired is all that this door reads of that room.
	Desired interface {
		Objects
		Revisions
		Sources
	}
	// Declaring changes what is declared, and how it is treated.
	Declaring interface {
		Put(ctx context.Context, ch identity.Change[desired.Object], w change.Write) (desired.Object, error)
		Delete(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, version int64) (desired.Object, error)
		Adopt(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, to desired.Owner, source string, version int64) (desired.Object, error)
		Suspend(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, reason string, until *time.Time) (desired.Object, error)
		Resume(ctx context.Context, ch identity.Change[desired.Object], n desired.Name) (desired.Object, error)
		Reconcile(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, reason string) (desired.Object, error)
	}
	// Proposals says what changes would do, and keeps what was decided about them.
	Proposals interface {
		Propose(ctx context.Context, ch identity.Change[change.Stored], r change.Request) (change.Stored, error)
		Approve(ctx context.Context, ch identity.Change[change.Stored], id ids.Plan, hash, reason string) (change.Stored, error)
		Reject(ctx context.Context, ch identity.Change[change.Stored], id ids.Plan, hash, reason string) (change.Stored, error)
		Apply(ctx context.Context, ch identity.Change[change.Stored], id ids.Plan, hash string) (change.Stored, error)
		Plans(ctx context.Context, f change.Filter) ([]change.Stored, error)
		Plan(ctx context.Context, id ids.Plan) (change.Stored, error)
	}
	// Following changes how sources are treated.
	Following interface {
		AskSource(ctx context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error)
		SuspendSource(ctx context.Context, ch identity.Change[revision.SourceState], name, reason string, until *time.Time) (revision.SourceState, error)
		ResumeSource(ctx context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error)
	}
	// Settings are the values of policy keys.
	Settings interface {
		Policies(ctx context.Context, prefix, after string, limit int) ([]change.PolicyKey, error)
		SetPolicy(ctx context.Context, ch identity.Change[change.PolicyKey], key string, scope policies.Scope, value any, version int64) (change.PolicyKey, error)
	}
	// Changes is all that this door asks of that room.
	Changes interface {
		Declaring
		Proposals
		Following
		Settings
		// IgnoreDrift lives with a difference for a while.
		IgnoreDrift(ctx context.Context, ch identity.Change[reconciler.Drift], id uuid.UUID, reason string, until time.Time) (reconciler.Drift, error)
	}
	// History reads what the loop decided and found, newest first.
	History interface {
		Plans(ctx context.Context, status string, before ids.Plan, limit int) ([]reconciler.StoredPlan, error)
		Plan(ctx context.Context, id ids.Plan) (reconciler.StoredPlan, []reconciler.StoredAction, error)
		Drifts(ctx context.Context, f reconciler.DriftFilter) ([]reconciler.Drift, error)
	}
	// Trace tells how an object came to be as it is.
	Trace func(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, []reconciler.TraceStep, error)
	// Hook takes what a forge says: it believes nothing but who sent it, and has the
	// source looked at.
	Hook func(ctx context.Context, source string, h http.Header, body []byte) error
	// Known says what came of these declarations, by their ids.
	Known func(ctx context.Context, of []desired.Object) (map[ids.Object]ObjectSeen, error)
)

// ObjectSeen is what is known of a declaration; what is nil is not there.
type ObjectSeen struct {
	Carried    *observed.AppliedSpec // by a room
	Node       *fleet.Node
	Allocation *allocation.Allocation
	Host       allocation.Seen // what it last said of the allocation
	Drifts     []reconciler.Drift
	RestartFor []string // fields of an Environment that a server reads only once
}
