package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/reconciler"
)

// ListDrift handles GET /api/v1/admin/drift.
func (s *Server) ListDrift(ctx context.Context, req oapi.ListDriftRequestObject) (oapi.ListDriftResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after reconciler.DriftPlace, n int) ([]reconciler.Drift, error) {
		return s.History.Drifts(ctx, reconciler.DriftFilter{
			Status: string(or(req.Params.Status, "")), Kind: string(or(req.Params.Kind, "")), After: after, Limit: n,
		})
	}, reconciler.Drift.Place, toDrift)
	if err != nil {
		return nil, err
	}
	return oapi.ListDrift200JSONResponse{
		Body:    oapi.DriftList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListDrift200ResponseHeaders{Link: l.link},
	}, nil
}

// IgnoreDrift handles POST /api/v1/admin/drift/{id}/ignore.
func (s *Server) IgnoreDrift(ctx context.Context, req oapi.IgnoreDriftRequestObject) (oapi.IgnoreDriftResponseObject, error) {
	ctx, r := of(ctx)
	h, err := s.holdOf(req.Body.Reason, &req.Body.Until)
	if err != nil {
		return nil, err
	}
	d, err := s.Changes.IgnoreDrift(ctx, keep(r, func(d reconciler.Drift) identity.Reply {
		return reply(http.StatusOK, toDrift(d), "", "")
	}), req.Id, h.reason, *h.until)
	if err != nil {
		return nil, err
	}
	return oapi.IgnoreDrift200JSONResponse{Body: toDrift(d)}, nil
}

func toDrift(d reconciler.Drift) oapi.Drift {
	shown := oapi.Drift{
		Id: d.ID, Kind: oapi.Kind(d.Kind), ObjectId: d.Object, Name: d.Name, Field: d.Field, Desired: d.Desired, Observed: d.Observed,
		Status: oapi.DriftStatus(d.Status), Policy: oapi.DriftPolicy(d.Policy), Owner: d.Owner, Cause: d.Cause,
		OpenedAt: d.OpenedAt.UTC(), ObservedAt: d.SeenAt.UTC(), DeadlineAt: utc(d.DeadlineAt), HealedAt: utc(d.HealedAt), Version: d.Version,
	}
	if d.Currency != "" {
		cost := amount(d.Cost, d.Currency)
		shown.CostPerHour = &cost
	}
	if d.IgnoredUntil != nil {
		shown.Ignored = &oapi.Ignored{By: d.IgnoredBy, Reason: d.IgnoredReason, Until: d.IgnoredUntil.UTC()}
	}
	return shown
}
