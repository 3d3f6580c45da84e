package evidence

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/reconciler"
)

type revisionRecord struct {
	Record string `json:"record"`
	revision.Revision
}

// validated is the result of the validation of a tree or a request.
type validated struct {
	Record   string `json:"record"`
	TreeHash string `json:"tree_hash,omitempty"`
	PlanHash string `json:"plan_hash,omitempty"`
	Objects  int    `json:"objects"`
	Findings any    `json:"findings"`
}

type proposal struct {
	Record    string    `json:"record"`
	ID        ids.Plan  `json:"id"`
	Source    string    `json:"source,omitempty"`
	Commit    string    `json:"commit,omitempty"`
	Pull      int       `json:"pull,omitempty"`
	Author    string    `json:"author"`
	CreatedAt time.Time `json:"created_at"`
}

type planRecord struct {
	Record string `json:"record"`
	Hash   string `json:"hash"`
	preview.Plan
}

type approval struct {
	Record string `json:"record"`
	change.Approval
}

type decision struct {
	Record    string     `json:"record"`
	Status    string     `json:"status"`
	Needed    int        `json:"approvals_needed"`
	DecidedBy string     `json:"decided_by,omitempty"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

// drift is a difference between desired and observed state that was open when the records were collected.
type drift struct {
	Record   string    `json:"record"`
	ID       uuid.UUID `json:"id"`
	Kind     string    `json:"kind"`
	Object   uuid.UUID `json:"object_id"`
	Name     string    `json:"name"`
	Field    string    `json:"field"`
	Desired  string    `json:"desired"`
	Observed string    `json:"observed"`
	Cause    string    `json:"cause"`
	OpenedAt time.Time `json:"opened_at"`
}

// revision collects an applied revision.
func (d Deps) revision(ctx context.Context, r evidence.Record) (*records, error) {
	number, err := strconv.ParseInt(r.Subject, 10, 64)
	if err != nil {
		return nil, err
	}
	rev, err := d.Desired.RevisionAt(ctx, d.DB, number)
	if err != nil {
		return nil, err
	}
	out := newRecords()
	out.add(bundle.Requested, revisionRecord{"revision", rev})
	out.add(bundle.Validated, validated{"validation", rev.TreeHash, "", rev.Objects, rev.Findings})
	switch p, err := d.Changes.Plan(ctx, rev.Plan); {
	case errs.CodeOf(err) == errs.NotFound: // the server has applied it alone, or the days of the plan have passed
	case err != nil:
		return nil, err
	default:
		if err := d.change(ctx, out, p); err != nil {
			return nil, err
		}
	}
	return out, d.audited(ctx, out, ids.Tenant{}, r.About)
}

// plan collects an applied plan.
func (d Deps) plan(ctx context.Context, r evidence.Record) (*records, error) {
	id, err := ids.Parse[ids.Plan](r.Subject)
	if err != nil {
		return nil, err
	}
	p, err := d.Changes.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	out := newRecords()
	out.add(bundle.Requested, proposal{"proposal", p.ID, p.Source, p.Commit, p.Pull, p.Author, p.CreatedAt.UTC()})
	out.add(bundle.Validated, validated{"validation", "", p.Hash, p.Plan.Objects, p.Plan.Findings})
	if err := d.change(ctx, out, p); err != nil {
		return nil, err
	}
	return out, d.audited(ctx, out, ids.Tenant{}, r.About)
}

// change adds the steps of a plan, its approvals, the actions and jobs since for the objects, and their open drift.
func (d Deps) change(ctx context.Context, out *records, p change.Stored) error {
	out.add(bundle.Planned, planRecord{"plan", p.Hash, p.Plan})
	for _, a := range p.Approvals {
		out.add(bundle.Approved, approval{"approval", a})
	}
	out.add(bundle.Approved, decision{"decision", p.Status, p.ApprovalsNeeded, p.DecidedBy, utc(p.DecidedAt), p.Decision, utc(p.AppliedAt)})
	since := p.CreatedAt
	if p.AppliedAt != nil {
		since = *p.AppliedAt
	}
	objects, err := d.objects(ctx, p.Plan.Steps)
	if err != nil {
		return err
	}
	actions, err := d.History.Since(ctx, objects, since, most)
	if err != nil {
		return err
	}
	addAll(out, bundle.Executed, "action", actions, viewAction)
	if err := d.executedJobs(ctx, out, objects, since); err != nil {
		return err
	}
	open, err := d.History.OpenDrift(ctx, objects)
	for _, id := range objects {
		for _, one := range open[id] {
			out.add(bundle.Observed, viewDrift(one))
		}
	}
	return err
}

func viewDrift(o reconciler.Drift) drift {
	return drift{"drift", o.ID, o.Kind, o.Object, o.Name, o.Field, o.Desired, o.Observed, o.Cause, o.OpenedAt.UTC()}
}

// objects returns the ids of the objects of a plan. An object that the plan creates has no id in it, and a deleted one has no name
// any more.
func (d Deps) objects(ctx context.Context, steps []preview.Step) (all []uuid.UUID, err error) {
	var names []desired.Name
	for _, s := range steps {
		if id, err := uuid.Parse(s.UID); err == nil && id != uuid.Nil {
			all = append(all, id)
			continue
		}
		names = append(names, desired.Name{Kind: s.Kind, Scope: s.Scope, Name: s.Name})
	}
	created, err := d.Desired.Named(ctx, d.DB, names)
	for _, o := range created {
		all = append(all, o.UID.UUID)
	}
	return all, err
}
