package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/inventory"
	"github.com/gpuaas/gpuaas/reconciler"
)

// What the handlers ask about declarations and of those who change them.
type (
	// Desired reads what was declared.
	Desired interface {
		Get(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, error)
		List(ctx context.Context, kind desired.Kind, after string, limit int) ([]desired.Object, error)
		Revisions(ctx context.Context, f RevisionFilter) ([]desired.Revision, error)
		Revision(ctx context.Context, number int64) (desired.Revision, error)
		Pointer(ctx context.Context, source string) (desired.Pointer, error)
	}
	// Declarations changes what is declared, and how it is treated.
	Declarations interface {
		Put(ctx context.Context, ch identity.Change[desired.Object], p Put) (desired.Object, error)
		Delete(ctx context.Context, ch identity.Change[desired.Object], of Object, version int64) (desired.Object, error)
		Adopt(ctx context.Context, ch identity.Change[desired.Object], of Object, version int64, to desired.Owner, source string) (desired.Object, error)
		Suspend(ctx context.Context, ch identity.Change[desired.Object], of Object, h Hold) (desired.Object, error)
		Resume(ctx context.Context, ch identity.Change[desired.Object], of Object) (desired.Object, error)
		Reconcile(ctx context.Context, ch identity.Change[desired.Object], of Object, reason string) (desired.Object, error)
	}
	// Plans reads what the loop decided and what changes would do, newest first, and
	// decides about the latter.
	Plans interface {
		Plans(ctx context.Context, f PlanFilter) ([]Plan, error)
		Plan(ctx context.Context, id ids.Plan) (PlanDetail, error)
		Propose(ctx context.Context, ch identity.Change[PlanDetail], p Proposal) (PlanDetail, error)
		Approve(ctx context.Context, ch identity.Change[PlanDetail], d Decision) (PlanDetail, error)
		Reject(ctx context.Context, ch identity.Change[PlanDetail], d Decision) (PlanDetail, error)
		Apply(ctx context.Context, ch identity.Change[PlanDetail], d Decision) (PlanDetail, error)
	}
	// Sources knows where declarations are kept.
	Sources interface {
		Sources(ctx context.Context, after string, limit int) ([]GitSource, error)
		Source(ctx context.Context, name string) (GitSource, error)
		SyncSource(ctx context.Context, ch identity.Change[GitSource], name string) (GitSource, error)
		SuspendSource(ctx context.Context, ch identity.Change[GitSource], name string, h Hold) (GitSource, error)
		ResumeSource(ctx context.Context, ch identity.Change[GitSource], name string) (GitSource, error)
		// Hook believes nothing but who sent it, and has the source looked at.
		Hook(ctx context.Context, source string, h http.Header, body []byte) error
	}
	// Differences knows where observed differs from desired, and how that came.
	Differences interface {
		Drifts(ctx context.Context, f reconciler.DriftFilter) ([]reconciler.Drift, error)
		Ignore(ctx context.Context, ch identity.Change[reconciler.Drift], id uuid.UUID, h Hold) (reconciler.Drift, error)
		Trace(ctx context.Context, of Object) (desired.Object, []reconciler.TraceStep, error)
		// Seen says what came of these declarations, by their ids.
		Seen(ctx context.Context, of []desired.Object) (map[ids.Object]ObjectSeen, error)
	}
	// Settings are the values of policy keys.
	Settings interface {
		Settings(ctx context.Context, keys []string) ([]Setting, error)
		Set(ctx context.Context, ch identity.Change[[]Setting], s NewSetting) ([]Setting, error)
	}
)

// Object names a declared one.
type Object struct {
	Kind        desired.Kind
	Scope, Name string
}

// Put is what the API shall own.
type Put struct {
	Object

	Labels, Annotations map[string]string
	Spec                json.RawMessage // as it was sent
	Version             int64           // that was changed; 0 with New unset: any
	New                 bool            // only a name that is not taken
	DryRun              bool            // check and answer, write nothing
}

// Hold is why and how long something is left alone; without Until, until somebody
// says otherwise.
type Hold struct {
	Reason string
	Until  *time.Time
}

// RevisionFilter is a page of revisions below a number (0: from the newest).
type RevisionFilter struct {
	Source, Status string
	Below          int64
	Limit          int
}

// PlanFilter is a page of plans before one (zero: from the newest).
type PlanFilter struct {
	Origin, Source, Status string
	Before                 ids.Plan
	Limit                  int
}

// Plan is one answer of the planner that was not empty, or what a change would do.
type Plan struct {
	ID            ids.Plan
	CreatedAt     time.Time
	Status, Hash  string
	Actions, Held int

	Origin               string // loop or change
	Source, Commit       string
	Pull                 int
	Author, Summary      string
	DecidedBy, Decision  string
	DecidedAt, AppliedAt *time.Time
}

// PlanDetail is a plan with its reasons: the actions of the loop, or the document
// of a change.
type PlanDetail struct {
	Plan

	Steps  []PlanAction
	Change json.RawMessage // as ChangePlan of the contract
}

// PlanAction is one step of a plan; Held says why it was held back.
type PlanAction struct {
	Number                   int
	Kind                     string
	Object                   uuid.UUID
	Node                     *ids.Node
	Verb, Event              string
	Fence, Generation, Epoch int64
	Reason, Held             string
}

// Proposal is what a change would have the files of a source be; without a source
// they are objects of the API.
type Proposal struct {
	Source, Commit, Author string
	Files                  map[string]string
}

// Decision is somebody's word on the plan that they have read.
type Decision struct {
	Plan         ids.Plan
	Hash, Reason string
}

// GitSource is where declarations are kept, with what was last seen of it.
type GitSource struct {
	Name, Repository, Ref string
	Dirs                  []string
	DeclaredBy            string
	Forge                 *Forge
	Signed                bool // only signed commits are applied
	Signers               int
	Head, Applied         string
	Revision              int64
	CheckedAt, FetchedAt  *time.Time
	Suspended             *Suspension
	GoneAt                *time.Time
	Conditions            []Condition
	Version               int64
}

// Forge is where a source's pull requests are.
type Forge struct{ Kind, Project, URL string }

// Suspension is who has something left alone, and until when.
type Suspension struct {
	By, Reason string
	At         time.Time
	Until      *time.Time
}

// Condition is one thing that holds, or does not.
type Condition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64
	LastTransitionTime            time.Time
}

// ObjectSeen is what is known of a declaration; what is nil is not there.
type ObjectSeen struct {
	Carried    *observed.Carried // by a room
	Node       *inventory.Node
	Allocation *allocation.Allocation
	Host       allocation.Seen // what it last said of the allocation
	Drifts     []reconciler.Drift
	RestartFor []string // fields of an Environment that a server reads only once
}

// Setting is a value that is declared for a key.
type Setting struct {
	Key     string
	Scope   policies.Scope
	Value   json.RawMessage
	Object  string // its Policy
	Version int64
	Source  desired.Source
}

// NewSetting is one that the API shall own.
type NewSetting struct {
	Key     string
	Scope   policies.Scope
	Value   any   // of the key's type
	Version int64 // that was changed; 0: any
}
