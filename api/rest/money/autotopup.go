package money

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
)

// ListAutoTopups handles GET /api/v1/payments/auto-topups.
func (s *Handlers) ListAutoTopups(ctx context.Context, req oapi.ListAutoTopupsRequestObject) (oapi.ListAutoTopupsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, adminSessions); err != nil {
		return nil, err
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Mandate, n int) ([]autotopup.View, error) {
		return s.AutoTopups.List(ctx, r.Caller, after, n)
	}, func(v autotopup.View) ids.Mandate { return v.ID }, s.toAutoTopup)
	if err != nil {
		return nil, err
	}
	return oapi.ListAutoTopups200JSONResponse{
		Body: oapi.AutoTopupList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListAutoTopups200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateAutoTopup handles POST /api/v1/payments/auto-topups.
func (s *Handlers) CreateAutoTopup(ctx context.Context, _ oapi.CreateAutoTopupRequestObject) (oapi.CreateAutoTopupResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, adminSessions); err != nil {
		return nil, err
	}
	v, err := s.AutoTopups.Begin(ctx, response.Change(r, func(v autotopup.View) identity.Reply {
		return response.Reply(http.StatusCreated, s.toAutoTopup(v), autoTopupAt(v), "")
	}))
	if err != nil {
		return nil, err
	}
	return oapi.CreateAutoTopup201JSONResponse{Body: s.toAutoTopup(v), Headers: oapi.CreateAutoTopup201ResponseHeaders{Location: autoTopupAt(v)}}, nil
}

// GetAutoTopup handles GET /api/v1/payments/auto-topups/{id}.
func (s *Handlers) GetAutoTopup(ctx context.Context, req oapi.GetAutoTopupRequestObject) (oapi.GetAutoTopupResponseObject, error) {
	ctx, r := request.Of(ctx)
	v, err := s.AutoTopups.Get(ctx, r.Caller, ids.From[ids.Mandate](req.Id))
	if err != nil {
		return nil, err
	}
	return oapi.GetAutoTopup200JSONResponse(s.toAutoTopup(v)), nil
}

// ConfirmAutoTopup handles PUT /api/v1/payments/auto-topups/{id}.
func (s *Handlers) ConfirmAutoTopup(ctx context.Context, req oapi.ConfirmAutoTopupRequestObject) (oapi.ConfirmAutoTopupResponseObject, error) {
	ctx, r := request.Of(ctx)
	v, err := s.AutoTopups.Confirm(ctx, response.Change(r, func(v autotopup.View) identity.Reply {
		return response.Reply(http.StatusOK, s.toAutoTopup(v), "", "")
	}), ids.From[ids.Mandate](req.Id), autotopup.Terms{
		Threshold: money.Minor(req.Body.ThresholdMinor), Amount: money.Minor(req.Body.AmountMinor), Cap: money.Minor(req.Body.MonthlyCapMinor), Currency: req.Body.Currency,
	})
	if err != nil {
		return nil, err
	}
	return oapi.ConfirmAutoTopup200JSONResponse{Body: s.toAutoTopup(v)}, nil
}

// DeleteAutoTopup handles DELETE /api/v1/payments/auto-topups/{id}.
func (s *Handlers) DeleteAutoTopup(ctx context.Context, req oapi.DeleteAutoTopupRequestObject) (oapi.DeleteAutoTopupResponseObject, error) {
	ctx, r := request.Of(ctx)
	err := s.AutoTopups.End(ctx, response.Change(r, func(autotopup.Mandate) identity.Reply {
		return response.Reply(http.StatusNoContent, nil, "", "")
	}), ids.From[ids.Mandate](req.Id))
	if err != nil {
		return nil, err
	}
	return oapi.DeleteAutoTopup204Response{}, nil
}

func autoTopupAt(v autotopup.View) string { return "/api/v1/payments/auto-topups/" + v.ID.String() }

func (s *Handlers) toAutoTopup(v autotopup.View) oapi.AutoTopup {
	shown := oapi.AutoTopup{
		Id: v.ID.UUID, Urn: v.URN(s.Naming), Status: oapi.AutoTopupStatus(v.State), Reason: response.OrNil(v.Reason), Url: response.OrNil(v.URL),
		Currency: v.Terms.Currency, ThresholdMinor: int64(v.Terms.Threshold), AmountMinor: int64(v.Terms.Amount), MonthlyCapMinor: int64(v.Terms.Cap),
		ChargedThisMonthMinor: int64(v.Charged), Failures: v.Failures, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, ConfirmedAt: response.UTC(v.ConfirmedAt),
	}
	if v.State == autotopup.Active {
		shown.NextChargeAt = response.UTC(&v.NextAt)
	}
	return shown
}
