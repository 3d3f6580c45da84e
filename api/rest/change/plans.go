package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/reconciler"
)

// The origins of plans: what the loop decided, and what a change would do.
const (
	ofLoop   = "loop"
	ofChange = "change"
)

// ListPlans handles GET /api/v1/admin/plans.
func (s *Handlers) ListPlans(ctx context.Context, req oapi.ListPlansRequestObject) (oapi.ListPlansResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(before ids.Plan, n int) ([]oapi.Plan, error) {
		return s.plansBefore(ctx, req.Params, before, n)
	}, func(p oapi.Plan) ids.Plan { return ids.From[ids.Plan](p.Id) }, func(p oapi.Plan) oapi.Plan { return p })
	if err != nil {
		return nil, err
	}
	return oapi.ListPlans200JSONResponse{
		Body:    oapi.PlanList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListPlans200ResponseHeaders{Link: l.Link},
	}, nil
}

// plansBefore reads both kinds, which are one history by their ids. A source has
// changes only.
func (s *Handlers) plansBefore(ctx context.Context, q oapi.ListPlansParams, before ids.Plan, limit int) ([]oapi.Plan, error) {
	source, status, origin := request.Or(q.Source, ""), string(request.Or(q.Status, "")), string(request.Or(q.Origin, ""))
	var all []oapi.Plan
	if origin != ofChange && source == "" {
		list, err := s.History.Plans(ctx, status, before, limit)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			all = append(all, s.toLoopPlan(p))
		}
	}
	if origin != ofLoop {
		list, err := s.Changes.Plans(ctx, change.Filter{Source: source, Status: status, Before: before, Limit: limit})
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			all = append(all, s.toChange(p))
		}
	}
	slices.SortFunc(all, func(a, b oapi.Plan) int { return bytes.Compare(b.Id[:], a.Id[:]) })
	return all[:min(len(all), limit)], nil
}

// GetPlan handles GET /api/v1/admin/plans/{id}.
func (s *Handlers) GetPlan(ctx context.Context, req oapi.GetPlanRequestObject) (oapi.GetPlanResponseObject, error) {
	ctx, _ = request.Of(ctx)
	id := ids.From[ids.Plan](req.Id)
	made, err := s.Changes.Plan(ctx, id)
	if errs.CodeOf(err) == errs.NotFound {
		p, actions, err := s.History.Plan(ctx, id)
		if err != nil {
			return nil, err
		}
		return oapi.GetPlan200JSONResponse(s.withActions(p, actions)), nil
	}
	shown, err := s.shownChange(made, err)
	if err != nil {
		return nil, err
	}
	return oapi.GetPlan200JSONResponse(shown), nil
}

// CreatePlan handles POST /api/v1/admin/plans.
func (s *Handlers) CreatePlan(ctx context.Context, req oapi.CreatePlanRequestObject) (oapi.CreatePlanResponseObject, error) {
	ctx, r := request.Of(ctx)
	files := make(map[string][]byte, len(req.Body.Files))
	for name, text := range req.Body.Files {
		files[name] = []byte(text)
	}
	made, err := s.Changes.Propose(ctx, s.keepPlan(r, http.StatusCreated), change.Request{
		Source: request.Or(req.Body.Source, ""), Commit: request.Or(req.Body.Commit, ""), Author: request.Or(req.Body.Author, ""), Files: files,
	})
	shown, err := s.shownChange(made, err)
	if err != nil {
		return nil, err
	}
	return oapi.CreatePlan201JSONResponse{Body: shown, Headers: oapi.CreatePlan201ResponseHeaders{Location: planAt(made.ID)}}, nil
}

// ApprovePlan handles POST /api/v1/admin/plans/{id}/approve.
func (s *Handlers) ApprovePlan(ctx context.Context, req oapi.ApprovePlanRequestObject) (oapi.ApprovePlanResponseObject, error) {
	ctx, r := request.Of(ctx)
	shown, err := s.shownChange(s.Changes.Approve(ctx, s.keepPlan(r, http.StatusOK), ids.From[ids.Plan](req.Id), request.Or(req.Body.Hash, ""), request.Or(req.Body.Reason, "")))
	if err != nil {
		return nil, err
	}
	return oapi.ApprovePlan200JSONResponse{Body: shown}, nil
}

// RejectPlan handles POST /api/v1/admin/plans/{id}/reject.
func (s *Handlers) RejectPlan(ctx context.Context, req oapi.RejectPlanRequestObject) (oapi.RejectPlanResponseObject, error) {
	ctx, r := request.Of(ctx)
	shown, err := s.shownChange(s.Changes.Reject(ctx, s.keepPlan(r, http.StatusOK), ids.From[ids.Plan](req.Id), request.Or(req.Body.Hash, ""), request.Or(req.Body.Reason, "")))
	if err != nil {
		return nil, err
	}
	return oapi.RejectPlan200JSONResponse{Body: shown}, nil
}

// ApplyPlan handles POST /api/v1/admin/plans/{id}/apply.
func (s *Handlers) ApplyPlan(ctx context.Context, req oapi.ApplyPlanRequestObject) (oapi.ApplyPlanResponseObject, error) {
	ctx, r := request.Of(ctx)
	shown, err := s.shownChange(s.Changes.Apply(ctx, s.keepPlan(r, http.StatusOK), ids.From[ids.Plan](req.Id), request.Or(req.Body.Hash, "")))
	if err != nil {
		return nil, err
	}
	return oapi.ApplyPlan200JSONResponse{Body: shown}, nil
}

func (s *Handlers) keepPlan(r *request.Call, status int) identity.Change[change.Stored] {
	return response.Change(r, func(p change.Stored) identity.Reply {
		shown, err := s.shownChange(p, nil)
		if err != nil { // the plan was created by this request
			panic(err)
		}
		at := ""
		if status == http.StatusCreated {
			at = planAt(p.ID)
		}
		return response.Reply(status, shown, at, "")
	})
}

func planAt(id ids.Plan) string { return "/api/v1/admin/plans/" + id.String() }

func (s *Handlers) toLoopPlan(p reconciler.StoredPlan) oapi.Plan {
	return oapi.Plan{
		Id: p.ID.UUID, Urn: s.planURN(p.ID), CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.CreatedAt.UTC(), Origin: new(oapi.PlanOrigin(ofLoop)), Status: oapi.PlanStatus(p.Status), Hash: p.Hash,
		Actions: p.Actions, Blocked: p.Held,
	}
}

func (s *Handlers) toChange(p change.Stored) oapi.Plan {
	return oapi.Plan{
		Id: p.ID.UUID, Urn: s.planURN(p.ID), CreatedAt: p.CreatedAt.UTC(), UpdatedAt: changedAt(p).UTC(), Origin: new(oapi.PlanOrigin(ofChange)), Status: oapi.PlanStatus(p.Status), Hash: p.Hash,
		Actions: p.Plan.Creates + p.Plan.Changes + p.Plan.Deletes + p.Plan.Adopts, Source: response.OrNil(p.Source), Commit: response.OrNil(p.Commit), PullRequest: response.OrNil(p.Pull),
		Author: response.OrNil(p.Author), Summary: response.OrNil(p.Plan.Summary), DecidedBy: response.OrNil(p.DecidedBy), DecidedAt: response.UTC(p.DecidedAt),
		Decision: response.OrNil(p.Decision), AppliedAt: response.UTC(p.AppliedAt), ApprovalsNeeded: &p.ApprovalsNeeded, Approvals: approvals(p),
	}
}

func (s *Handlers) planURN(id ids.Plan) string {
	return s.Naming.Name("", "", "plan", id.String()).String()
}

// changedAt returns the time of the last approval, of the decision or of the application of a plan.
func changedAt(p change.Stored) time.Time {
	last := p.CreatedAt
	for _, a := range p.Approvals {
		last = response.Later(last, &a.At)
	}
	return response.Later(last, p.DecidedAt, p.AppliedAt)
}

func approvals(p change.Stored) *[]oapi.PlanApproval {
	list := make([]oapi.PlanApproval, len(p.Approvals))
	for i, a := range p.Approvals {
		list[i] = oapi.PlanApproval{By: a.By, At: a.At.UTC(), Reason: a.Reason}
	}
	return &list
}

// detail is a plan with what lists leave out.
func detail(p oapi.Plan) oapi.PlanDetail {
	return oapi.PlanDetail{
		Id: p.Id, Urn: p.Urn, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, Origin: (*oapi.PlanDetailOrigin)(p.Origin), Status: oapi.PlanDetailStatus(p.Status), Hash: p.Hash,
		Actions: p.Actions, Blocked: p.Blocked, Source: p.Source, Commit: p.Commit, PullRequest: p.PullRequest, Author: p.Author, Summary: p.Summary,
		DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt, Decision: p.Decision, AppliedAt: p.AppliedAt,
		Approvals: p.Approvals, ApprovalsNeeded: p.ApprovalsNeeded, Steps: []oapi.PlanAction{},
	}
}

func (s *Handlers) withActions(p reconciler.StoredPlan, actions []reconciler.StoredAction) oapi.PlanDetail {
	shown := detail(s.toLoopPlan(p))
	for _, a := range actions {
		shown.Steps = append(shown.Steps, oapi.PlanAction{
			Number: a.Number, Kind: a.Kind, ObjectId: a.Object, NodeId: a.Node, Verb: a.Verb, Event: a.Event,
			Fence: a.Fence, Generation: a.Generation, Epoch: a.Epoch, Reason: a.Reason, Blocked: a.Held,
		})
	}
	return shown
}

// shownChange shows the document of a change. Its form is the contract's already;
// what is null in it is empty.
func (s *Handlers) shownChange(p change.Stored, err error) (oapi.PlanDetail, error) {
	if err != nil {
		return oapi.PlanDetail{}, err
	}
	shown := detail(s.toChange(p))
	text, err := json.Marshal(p.Plan)
	if err == nil {
		err = json.Unmarshal(text, &shown.Change)
	}
	if err != nil {
		return shown, fmt.Errorf("showing plan %s: %w", p.ID, err)
	}
	fillPlan(shown.Change)
	return shown, nil
}

func fillPlan(c *oapi.ChangePlan) {
	c.Steps, c.Money, c.ApprovalReasons, c.Findings = response.OrEmpty(c.Steps), response.OrEmpty(c.Money), response.OrEmpty(c.ApprovalReasons), response.OrEmpty(c.Findings)
	c.BlastRadius.Drains, c.BlastRadius.OverCaps, c.BlastRadius.Names = response.OrEmpty(c.BlastRadius.Drains), response.OrEmpty(c.BlastRadius.OverCaps), response.OrEmpty(c.BlastRadius.Names)
	for i := range c.Steps {
		c.Steps[i].Fields = response.OrEmpty(c.Steps[i].Fields)
	}
	for i := range c.Money {
		c.Money[i].Tenants = response.OrEmpty(c.Money[i].Tenants)
	}
	for i := range c.ApprovalReasons {
		c.ApprovalReasons[i].Objects = response.OrEmpty(c.ApprovalReasons[i].Objects)
	}
}
