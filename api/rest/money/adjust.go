package money

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// AdjustBalance handles POST /api/v1/admin/users/{user_id}/balance.
func (s *Handlers) AdjustBalance(ctx context.Context, req oapi.AdjustBalanceRequestObject) (oapi.AdjustBalanceResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.CheckCurrencyOf(ctx, ids.From[ids.User](req.UserId), req.Body.Currency); err != nil {
		return nil, err
	}
	a, err := s.Billing.Adjust(ctx, response.Change(r, func(a billing.Adjustment) identity.Reply {
		return response.Reply(http.StatusCreated, toAdjustment(a), adjustmentAt(a), "")
	}), ids.From[ids.User](req.UserId), money.Minor(req.Body.AmountMinor), req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.AdjustBalance201JSONResponse{Body: toAdjustment(a), Headers: oapi.AdjustBalance201ResponseHeaders{Location: adjustmentAt(a)}}, nil
}

// adjustmentAt is the ledger that it is based on.
func adjustmentAt(a billing.Adjustment) string {
	return "/api/v1/admin/tenants/" + a.Tenant.String() + "/ledger?kind=adjustment"
}

func toAdjustment(a billing.Adjustment) oapi.Adjustment {
	return oapi.Adjustment{TransferId: a.Transfer, TenantId: a.Tenant.UUID, Amount: response.Money(a.AmountMinor, a.Currency), Reason: a.Reason}
}

// CreateRefund handles POST /api/v1/admin/users/{user_id}/refunds.
func (s *Handlers) CreateRefund(ctx context.Context, req oapi.CreateRefundRequestObject) (oapi.CreateRefundResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.CheckCurrencyOf(ctx, ids.From[ids.User](req.UserId), req.Body.Currency); err != nil {
		return nil, err
	}
	q := payment.RefundRequest{
		User: ids.From[ids.User](req.UserId), Kind: payment.Kind(req.Body.Kind), Amount: money.Minor(req.Body.AmountMinor), Reason: req.Body.Reason,
	}
	if req.Body.PaymentSessionId != nil {
		session := ids.From[ids.PaymentSession](*req.Body.PaymentSessionId)
		q.Session = &session
	}
	f, err := s.Payments.Refund(ctx, response.Change(r, func(f payment.Refund) identity.Reply {
		return response.Reply(http.StatusCreated, s.toRefund(f), refundAt(f), "")
	}), q)
	if err != nil {
		return nil, err
	}
	return oapi.CreateRefund201JSONResponse{Body: s.toRefund(f), Headers: oapi.CreateRefund201ResponseHeaders{Location: refundAt(f)}}, nil
}

// refundAt is the list that it heads.
func refundAt(f payment.Refund) string { return "/api/v1/admin/refunds?tenant_id=" + f.Tenant.String() }

// ListRefunds handles GET /api/v1/billing/refunds.
func (s *Handlers) ListRefunds(ctx context.Context, req oapi.ListRefundsRequestObject) (oapi.ListRefundsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/admin/refunds"); err != nil {
		return nil, err
	}
	l, err := s.refunds(ctx, r, r.Caller.Tenant, req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListRefunds200JSONResponse{
		Body:    oapi.RefundList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListRefunds200ResponseHeaders{Link: l.Link},
	}, nil
}

// ListAdminRefunds handles GET /api/v1/admin/refunds.
func (s *Handlers) ListAdminRefunds(ctx context.Context, req oapi.ListAdminRefundsRequestObject) (oapi.ListAdminRefundsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := s.refunds(ctx, r, tenantParam(req.Params.TenantId), req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminRefunds200JSONResponse{
		Body:    oapi.RefundList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAdminRefunds200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) refunds(ctx context.Context, r *request.Call, tenant ids.Tenant, cursor *string, limit *int) (response.ListPage[oapi.Refund], error) {
	return response.List(s.Cursors, r, cursor, limit, func(after ids.Refund, n int) ([]payment.Refund, error) {
		return s.Payments.Refunds(ctx, tenant, after, n)
	}, func(f payment.Refund) ids.Refund { return f.ID }, s.toRefund)
}

func (s *Handlers) toRefund(f payment.Refund) oapi.Refund {
	shown := oapi.Refund{
		Id: f.ID.UUID, Urn: f.URN(s.Naming), TenantId: f.Tenant.UUID, Kind: oapi.RefundKind(f.Kind), Route: oapi.RefundRoute(f.Route), Amount: response.Money(f.Amount, f.Currency),
		Reason: f.Reason, Status: oapi.RefundStatus(f.State), Failure: response.OrNil(f.Failure), TransferId: f.Transfer, RequestedBy: f.RequestedBy,
		CreatedAt: f.CreatedAt.UTC(), UpdatedAt: response.Later(f.CreatedAt, f.SettledAt), SettledAt: response.UTC(f.SettledAt),
	}
	if f.Session != nil {
		shown.PaymentSessionId = &f.Session.UUID
	}
	return shown
}
