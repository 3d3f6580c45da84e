package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// ListPlans handles GET /api/v1/admin/plans.
func (s *Server) ListPlans(ctx context.Context, req oapi.ListPlansRequestObject) (oapi.ListPlansResponseObject, error) {
	ctx, r := of(ctx)
	var before ids.Plan
	if err := s.cursors.open(r, req.Params.Cursor, &before); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	plans, err := s.Plans.Plans(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	plans, next, link, err := page(s, r, limit, plans, func(p Plan) any { return p.ID })
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Plan, len(plans))
	for i, p := range plans {
		items[i] = oapi.Plan{
			Id: p.ID.UUID, CreatedAt: p.CreatedAt.UTC(), Status: oapi.PlanStatus(p.Status), Hash: p.Hash, Actions: p.Actions, Held: p.Held,
		}
	}
	return oapi.ListPlans200JSONResponse{
		Body:    oapi.PlanList{Items: items, NextCursor: next},
		Headers: oapi.ListPlans200ResponseHeaders{Link: link},
	}, nil
}

// GetPlan handles GET /api/v1/admin/plans/{id}.
func (s *Server) GetPlan(ctx context.Context, req oapi.GetPlanRequestObject) (oapi.GetPlanResponseObject, error) {
	ctx, _ = of(ctx)
	p, actions, err := s.Plans.Plan(ctx, ids.From[ids.Plan](req.Id))
	if err != nil {
		return nil, err
	}
	steps := make([]oapi.PlanAction, len(actions))
	for i, a := range actions {
		steps[i] = oapi.PlanAction{
			Number: a.Number, Kind: a.Kind, ObjectId: a.Object, NodeId: nodeOf(a), Verb: a.Verb, Event: a.Event,
			Fence: a.Fence, Generation: a.Generation, Epoch: a.Epoch, Reason: a.Reason, Held: a.Held,
		}
	}
	return oapi.GetPlan200JSONResponse{
		Id: p.ID.UUID, CreatedAt: p.CreatedAt.UTC(), Status: oapi.PlanDetailStatus(p.Status), Hash: p.Hash,
		Actions: p.Actions, Held: p.Held, Steps: steps,
	}, nil
}

func nodeOf(a PlanAction) *uuid.UUID {
	if a.Node == nil {
		return nil
	}
	return &a.Node.UUID
}
