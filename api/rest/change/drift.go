package change

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/reconciler"
)

// ListDrift handles GET /api/v1/admin/drift.
func (s *Handlers) ListDrift(ctx context.Context, req oapi.ListDriftRequestObject) (oapi.ListDriftResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after reconciler.DriftPlace, n int) ([]reconciler.Drift, error) {
		return s.History.Drifts(ctx, reconciler.DriftFilter{
			Status: string(request.Or(req.Params.Status, "")), Kind: string(request.Or(req.Params.Kind, "")), After: after, Limit: n,
		})
	}, reconciler.Drift.Place, s.toDrift)
	if err != nil {
		return nil, err
	}
	return oapi.ListDrift200JSONResponse{
		Body:    oapi.DriftList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListDrift200ResponseHeaders{Link: l.Link},
	}, nil
}

// IgnoreDrift handles POST /api/v1/admin/drift/{id}/ignore.
func (s *Handlers) IgnoreDrift(ctx context.Context, req oapi.IgnoreDriftRequestObject) (oapi.IgnoreDriftResponseObject, error) {
	ctx, r := request.Of(ctx)
	h, err := s.ReadHold(req.Body.Reason, &req.Body.Until)
	if err != nil {
		return nil, err
	}
	d, err := s.Changes.IgnoreDrift(ctx, response.Change(r, func(d reconciler.Drift) identity.Reply {
		return response.Reply(http.StatusOK, s.toDrift(d), "", "")
	}), req.Id, h.Reason, *h.Until)
	if err != nil {
		return nil, err
	}
	return oapi.IgnoreDrift200JSONResponse{Body: s.toDrift(d)}, nil
}

func (s *Handlers) toDrift(d reconciler.Drift) oapi.Drift {
	shown := oapi.Drift{
		Id: d.ID, Urn: s.Naming.Name("", "", "drift", d.ID.String()).String(), CreatedAt: d.OpenedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(), Kind: oapi.Kind(d.Kind), ObjectId: d.Object, Name: d.Name, Field: d.Field, Desired: d.Desired, Observed: d.Observed,
		Status: oapi.DriftStatus(d.Status), Policy: oapi.DriftPolicy(d.Policy), Owner: d.Owner, Cause: d.Cause,
		OpenedAt: d.OpenedAt.UTC(), ObservedAt: d.ChangedAt.UTC(), DeadlineAt: response.UTC(d.DeadlineAt), HealedAt: response.UTC(d.HealedAt), Version: d.Version,
	}
	if d.Currency != "" {
		cost := response.Money(d.Cost, d.Currency)
		shown.CostPerHour = &cost
	}
	if d.IgnoredUntil != nil {
		shown.Ignored = &oapi.Ignored{By: d.IgnoredBy, Reason: d.IgnoredReason, Until: d.IgnoredUntil.UTC()}
	}
	return shown
}
