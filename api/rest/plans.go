package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListPlans handles GET /api/v1/admin/plans.
func (s *Server) ListPlans(ctx context.Context, req oapi.ListPlansRequestObject) (oapi.ListPlansResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(before ids.Plan, n int) ([]Plan, error) {
		return s.Plans.Plans(ctx, PlanFilter{
			Origin: string(or(req.Params.Origin, "")), Source: or(req.Params.Source, ""), Status: string(or(req.Params.Status, "")),
			Before: before, Limit: n,
		})
	}, func(p Plan) ids.Plan { return p.ID }, toPlan)
	if err != nil {
		return nil, err
	}
	return oapi.ListPlans200JSONResponse{
		Body:    oapi.PlanList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListPlans200ResponseHeaders{Link: l.link},
	}, nil
}

// GetPlan handles GET /api/v1/admin/plans/{id}.
func (s *Server) GetPlan(ctx context.Context, req oapi.GetPlanRequestObject) (oapi.GetPlanResponseObject, error) {
	ctx, _ = of(ctx)
	shown, err := shownPlan(s.Plans.Plan(ctx, ids.From[ids.Plan](req.Id)))
	if err != nil {
		return nil, err
	}
	return oapi.GetPlan200JSONResponse(shown), nil
}

// CreatePlan handles POST /api/v1/admin/plans.
func (s *Server) CreatePlan(ctx context.Context, req oapi.CreatePlanRequestObject) (oapi.CreatePlanResponseObject, error) {
	ctx, r := of(ctx)
	made, err := s.Plans.Propose(ctx, keepPlan(r, http.StatusCreated), Proposal{
		Source: or(req.Body.Source, ""), Commit: or(req.Body.Commit, ""), Author: or(req.Body.Author, ""), Files: req.Body.Files,
	})
	shown, err := shownPlan(made, err)
	if err != nil {
		return nil, err
	}
	return oapi.CreatePlan201JSONResponse{Body: shown, Headers: oapi.CreatePlan201ResponseHeaders{Location: planAt(made)}}, nil
}

// ApprovePlan handles POST /api/v1/admin/plans/{id}/approve.
func (s *Server) ApprovePlan(ctx context.Context, req oapi.ApprovePlanRequestObject) (oapi.ApprovePlanResponseObject, error) {
	ctx, r := of(ctx)
	shown, err := shownPlan(s.Plans.Approve(ctx, keepPlan(r, http.StatusOK), decisionOf(req.Id, *req.Body)))
	if err != nil {
		return nil, err
	}
	return oapi.ApprovePlan200JSONResponse{Body: shown}, nil
}

// RejectPlan handles POST /api/v1/admin/plans/{id}/reject.
func (s *Server) RejectPlan(ctx context.Context, req oapi.RejectPlanRequestObject) (oapi.RejectPlanResponseObject, error) {
	ctx, r := of(ctx)
	shown, err := shownPlan(s.Plans.Reject(ctx, keepPlan(r, http.StatusOK), decisionOf(req.Id, *req.Body)))
	if err != nil {
		return nil, err
	}
	return oapi.RejectPlan200JSONResponse{Body: shown}, nil
}

// ApplyPlan handles POST /api/v1/admin/plans/{id}/apply.
func (s *Server) ApplyPlan(ctx context.Context, req oapi.ApplyPlanRequestObject) (oapi.ApplyPlanResponseObject, error) {
	ctx, r := of(ctx)
	shown, err := shownPlan(s.Plans.Apply(ctx, keepPlan(r, http.StatusOK), Decision{Plan: ids.From[ids.Plan](req.Id), Hash: or(req.Body.Hash, "")}))
	if err != nil {
		return nil, err
	}
	return oapi.ApplyPlan200JSONResponse{Body: shown}, nil
}

func decisionOf(id uuid.UUID, d oapi.Decision) Decision {
	return Decision{Plan: ids.From[ids.Plan](id), Hash: or(d.Hash, ""), Reason: or(d.Reason, "")}
}

func keepPlan(r *call, status int) identity.Change[PlanDetail] {
	return keep(r, func(p PlanDetail) identity.Reply {
		shown, err := shownPlan(p, nil)
		if err != nil { // the room has just made this document
			panic(err)
		}
		at := ""
		if status == http.StatusCreated {
			at = planAt(p)
		}
		return reply(status, shown, at, "")
	})
}

func planAt(p PlanDetail) string { return "/api/v1/admin/plans/" + p.ID.String() }

func toPlan(p Plan) oapi.Plan {
	return oapi.Plan{
		Id: p.ID.UUID, CreatedAt: p.CreatedAt.UTC(), Status: oapi.PlanStatus(p.Status), Hash: p.Hash, Actions: p.Actions, Held: p.Held,
		Origin: filled(oapi.PlanOrigin(p.Origin)), Source: filled(p.Source), Commit: filled(p.Commit), Pull: filled(p.Pull), Author: filled(p.Author),
		Summary: filled(p.Summary), DecidedBy: filled(p.DecidedBy), DecidedAt: utc(p.DecidedAt), Decision: filled(p.Decision), AppliedAt: utc(p.AppliedAt),
	}
}

func shownPlan(d PlanDetail, err error) (oapi.PlanDetail, error) {
	if err != nil {
		return oapi.PlanDetail{}, err
	}
	p := toPlan(d.Plan)
	shown := oapi.PlanDetail{
		Id: p.Id, CreatedAt: p.CreatedAt, Status: oapi.PlanDetailStatus(p.Status), Hash: p.Hash, Actions: p.Actions, Held: p.Held,
		Origin: filled(oapi.PlanDetailOrigin(d.Origin)), Source: p.Source, Commit: p.Commit, Pull: p.Pull, Author: p.Author, Summary: p.Summary,
		DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt, Decision: p.Decision, AppliedAt: p.AppliedAt, Steps: make([]oapi.PlanAction, len(d.Steps)),
	}
	for i, a := range d.Steps {
		shown.Steps[i] = oapi.PlanAction{
			Number: a.Number, Kind: a.Kind, ObjectId: a.Object, NodeId: nodeOf(a), Verb: a.Verb, Event: a.Event,
			Fence: a.Fence, Generation: a.Generation, Epoch: a.Epoch, Reason: a.Reason, Held: a.Held,
		}
	}
	if len(d.Change) > 0 {
		shown.Change = &oapi.ChangePlan{}
		if err := json.Unmarshal(d.Change, shown.Change); err != nil {
			return shown, fmt.Errorf("reading the document of plan %s: %w", d.ID, err)
		}
	}
	return shown, nil
}

func nodeOf(a PlanAction) *uuid.UUID {
	if a.Node == nil {
		return nil
	}
	return &a.Node.UUID
}
