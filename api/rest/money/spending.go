package money

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// GetBillingLimits handles GET /api/v1/billing/limits.
func (s *Handlers) GetBillingLimits(ctx context.Context, req oapi.GetBillingLimitsRequestObject) (oapi.GetBillingLimitsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/desired/Policy"); err != nil {
		return nil, err
	}
	project := projectParam(req.Params.ProjectId)
	v, err := s.Billing.Limits(ctx, r.Caller, project)
	if err != nil {
		return nil, err
	}
	n, err := s.spending(ctx, r.Caller.Tenant, project)
	if err != nil {
		return nil, err
	}
	return oapi.GetBillingLimits200JSONResponse{Body: toLimits(v, n), Headers: oapi.GetBillingLimits200ResponseHeaders{ETag: request.ETag(v.Version)}}, nil
}

// PutBillingLimits handles PUT /api/v1/billing/limits.
func (s *Handlers) PutBillingLimits(ctx context.Context, req oapi.PutBillingLimitsRequestObject) (oapi.PutBillingLimitsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/desired/Policy"); err != nil {
		return nil, err
	}
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Identity.CheckCurrency(ctx, r.Caller.Tenant, req.Body.Currency); err != nil {
		return nil, err
	}
	project := projectParam(req.Params.ProjectId)
	n, err := s.spending(ctx, r.Caller.Tenant, project)
	if err != nil {
		return nil, err
	}
	v, err := s.Billing.SetLimits(ctx, response.Change(r, func(v billing.LimitsView) identity.Reply {
		return response.Reply(http.StatusOK, toLimits(v, n), "", request.ETag(v.Version))
	}), project, version, billing.Limits{HourlySpendMinor: sent(req.Body.HourlySpendMinor), MonthlyBudgetMinor: sent(req.Body.MonthlyBudgetMinor)})
	if err != nil {
		return nil, err
	}
	return oapi.PutBillingLimits200JSONResponse{Body: toLimits(v, n), Headers: oapi.PutBillingLimits200ResponseHeaders{ETag: request.ETag(v.Version)}}, nil
}

func projectParam(id *uuid.UUID) ids.Project { return ids.From[ids.Project](request.Or(id, uuid.Nil)) }

func sent(m *int64) *money.Minor {
	if m == nil {
		return nil
	}
	return new(money.Minor(*m))
}

// spending contains the sums that the limits are compared with.
type spending struct{ committed, spent money.Minor }

// spending reads the sums that the limits are compared with.
func (s *Handlers) spending(ctx context.Context, tenant ids.Tenant, project ids.Project) (n spending, err error) {
	if n.committed, err = s.Allocations.CommittedBurn(ctx, s.DB, tenant, project); err != nil {
		return n, err
	}
	stored, err := s.Metering.StorageBurn(ctx, s.DB, tenant, project)
	if err != nil {
		return n, err
	}
	n.committed += stored
	now := s.Clock.Now().UTC()
	n.spent, err = s.Metering.SpentSince(ctx, s.DB, tenant, project, time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC))
	return n, err
}

func toLimits(v billing.LimitsView, n spending) oapi.BillingLimits {
	shown := oapi.BillingLimits{
		Currency: v.Currency, HourlySpendMinor: int64(request.Or(v.HourlySpendMinor, 0)), MonthlyBudgetMinor: int64(request.Or(v.MonthlyBudgetMinor, 0)),
		EffectiveHourlySpendMinor: int64(v.EffectiveHourlyMinor), EffectiveMonthlyBudgetMinor: int64(v.EffectiveMonthlyMinor),
		HourlyManagedBy: response.OrNil(v.HourlyManagedBy), MonthlyManagedBy: response.OrNil(v.MonthlyManagedBy),
		CommittedPerHourMinor: int64(n.committed), SpentThisMonthMinor: int64(n.spent), Version: strconv.FormatInt(v.Version, 10),
	}
	if v.Project != (ids.Project{}) {
		shown.ProjectId = &v.Project.UUID
	}
	return shown
}
