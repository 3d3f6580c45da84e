package money

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
)

// GetBalance handles GET /api/v1/billing/balance.
func (s *Handlers) GetBalance(ctx context.Context, _ oapi.GetBalanceRequestObject) (oapi.GetBalanceResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/balance"); err != nil {
		return nil, err
	}
	b, err := s.balance(ctx, r.Caller.Tenant)
	return oapi.GetBalance200JSONResponse(b), err
}

// GetTenantBalance handles GET /api/v1/admin/tenants/{tenant_id}/balance.
func (s *Handlers) GetTenantBalance(ctx context.Context, req oapi.GetTenantBalanceRequestObject) (oapi.GetTenantBalanceResponseObject, error) {
	ctx, _ = request.Of(ctx)
	b, err := s.balance(ctx, ids.From[ids.Tenant](req.TenantId))
	return oapi.GetTenantBalance200JSONResponse(b), err
}

// ofTenant rejects a caller without a tenant, because queries in the scope of the platform treat a
// missing tenant as all tenants.
func ofTenant(r *request.Call, instead string) error {
	if r.Caller.Tenant == (ids.Tenant{}) {
		return errs.New(errs.NotFound, "you are in no tenant").Try("operators use %s", instead)
	}
	return nil
}

func (s *Handlers) balance(ctx context.Context, tenant ids.Tenant) (oapi.Balance, error) {
	st, err := s.Billing.Status(ctx, s.DB, tenant)
	if err != nil {
		return oapi.Balance{}, err
	}
	pending, err := s.Payments.Pending(ctx, s.DB, tenant)
	return toBalance(st, pending), err
}

func toBalance(st billing.Status, pending money.Minor) oapi.Balance {
	threshold, spent, coming := int64(st.ThresholdMinor), int64(st.SpentMonthMinor), int64(pending)
	return oapi.Balance{
		AmountMinor: int64(st.BalanceMinor), Currency: st.Currency, BurnPerHourMinor: int64(st.BurnMinor), RunwaySeconds: st.RunwaySeconds,
		Low: &st.Low, LowThresholdMinor: &threshold, ReleasesAt: response.UTC(st.ReleasesAt), FilesDeletedAt: response.UTC(st.FilesDeleteAt), SpentThisMonthMinor: &spent, PendingMinor: &coming,
	}
}

// period returns the requested period. The default is the current month, or the month of the given
// end.
func (s *Handlers) period(from, to *time.Time) (begin, end time.Time, err error) {
	// Metering counts whole seconds: what began in this one is part of now.
	end = request.Or(to, s.Clock.Now().Truncate(time.Second).Add(time.Second)).UTC()
	last := end.Add(-1)
	begin = request.Or(from, time.Date(last.Year(), last.Month(), 1, 0, 0, 0, 0, time.UTC)).UTC()
	if !begin.Before(end) {
		return begin, end, errs.Invalid("to", "must be after from")
	}
	return begin, end, nil
}
