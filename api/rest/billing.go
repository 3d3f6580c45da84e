package rest

import (
	"context"
	"math"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// GetBalance handles GET /api/v1/billing/balance.
func (s *Server) GetBalance(ctx context.Context, _ oapi.GetBalanceRequestObject) (oapi.GetBalanceResponseObject, error) {
	ctx, r := of(ctx)
	balance, currency, err := s.Ledger.Balance(ctx, s.DB, r.caller.Tenant)
	if err != nil {
		return nil, err
	}
	burn, err := s.Metering.Burn(ctx, s.DB, r.caller.Tenant)
	if err != nil {
		return nil, err
	}
	return oapi.GetBalance200JSONResponse{
		AmountMinor: int64(balance), Currency: currency, BurnMinorPerHour: int64(burn), RunwaySeconds: runway(balance, burn),
	}, nil
}

// runway is how many seconds the balance lasts; nil while nothing is burnt.
func runway(balance, burn money.Minor) *int64 {
	if burn <= 0 {
		return nil
	}
	const hour = int64(time.Hour / time.Second)
	if balance <= 0 {
		return new(int64)
	}
	whole, rest := int64(balance)/int64(burn), int64(balance)%int64(burn)
	if whole > math.MaxInt64/hour-1 || rest > math.MaxInt64/hour {
		return nil // longer than anything that ends
	}
	seconds := whole*hour + rest*hour/int64(burn)
	return &seconds
}

// GetUsage handles GET /api/v1/billing/usage.
func (s *Server) GetUsage(ctx context.Context, req oapi.GetUsageRequestObject) (oapi.GetUsageResponseObject, error) {
	ctx, r := of(ctx)
	from, to, err := s.period(req.Params)
	if err != nil {
		return nil, err
	}
	var project ids.Project
	if !r.everywhere() {
		project = r.caller.Project
	}
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]metering.Usage, error) {
		return s.Metering.Usage(ctx, metering.Query{
			Tenant: r.caller.Tenant, Project: project, From: from, To: to, By: metering.ByAllocation, After: after, Limit: n,
		})
	}, func(u metering.Usage) string { return u.Key }, toUsage)
	if err != nil {
		return nil, err
	}
	return oapi.GetUsage200JSONResponse{
		Body:    oapi.UsageList{Items: l.items, NextCursor: l.next},
		Headers: oapi.GetUsage200ResponseHeaders{Link: l.link},
	}, nil
}

// period is the running month where nothing else is asked for.
func (s *Server) period(p oapi.GetUsageParams) (from, to time.Time, err error) {
	now := s.Clock.Now()
	to = or(p.To, now)
	from = or(p.From, time.Date(to.Year(), to.Month(), 1, 0, 0, 0, 0, time.UTC))
	if !from.Before(to) {
		return from, to, errs.Invalid("to", "must be after from")
	}
	return from, to, nil
}

func toUsage(u metering.Usage) oapi.Usage {
	return oapi.Usage{
		AllocationId: u.Allocation.UUID, ProjectId: u.Project.UUID, Sku: u.SKU, Gpus: u.GPUs, Price: amount(u.PriceMinor, u.Currency),
		StartedAt: u.StartedAt.UTC(), EndedAt: utc(u.EndedAt), Seconds: u.Seconds, Cost: amount(u.CostMinor, u.Currency),
	}
}
