package money

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// ListDisputes handles GET /api/v1/admin/disputes.
func (s *Handlers) ListDisputes(ctx context.Context, req oapi.ListDisputesRequestObject) (oapi.ListDisputesResponseObject, error) {
	ctx, r := request.Of(ctx)
	tenant := tenantParam(req.Params.TenantId)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]payment.Dispute, error) {
		return s.Payments.Disputes(ctx, tenant, after, n)
	}, func(d payment.Dispute) string { return d.ID }, s.toDispute)
	if err != nil {
		return nil, err
	}
	return oapi.ListDisputes200JSONResponse{
		Body: oapi.DisputeList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListDisputes200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) toDispute(d payment.Dispute) oapi.Dispute {
	return oapi.Dispute{
		Id: d.ID, Urn: d.URN(s.Naming), TenantId: d.Tenant.UUID, PaymentSessionId: d.Session.UUID, Amount: response.Money(d.Amount, d.Currency), Reason: d.Reason,
		Stage: oapi.DisputeStage(d.Stage), TransferId: d.Transfer, CreatedAt: d.CreatedAt, StageAt: d.StageAt, UpdatedAt: d.StageAt,
	}
}
