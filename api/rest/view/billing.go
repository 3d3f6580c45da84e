package view

import (
	"context"
	"net/url"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// GetBillingOverview handles GET /api/v3/billing/overview.
func (s *Handlers) GetBillingOverview(ctx context.Context, req oapi.GetBillingOverviewRequestObject) (oapi.GetBillingOverviewResponseObject, error) {
	m, shown := s.begin(ctx), oapi.BillingOverview{}
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	section(m, &shown.Limits, "getBillingLimits", nil, getBillingLimits)
	section(m, &shown.Usage, "getUsageSummary", url.Values{"by": {string(oapi.GetUsageSummaryParamsByDay)}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetUsageSummary(ctx, oapi.GetUsageSummaryRequestObject{Params: oapi.GetUsageSummaryParams{By: new(oapi.GetUsageSummaryParamsByDay), XProjectID: req.Params.XProjectID}})
	})
	section(m, &shown.AutoTopups, "listAutoTopups", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAutoTopups(ctx, oapi.ListAutoTopupsRequestObject{Params: oapi.ListAutoTopupsParams{Limit: new(few)}})
	})
	section(m, &shown.Payments, "listPaymentSessions", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListPaymentSessions(ctx, oapi.ListPaymentSessionsRequestObject{Params: oapi.ListPaymentSessionsParams{Limit: new(few)}})
	})
	section(m, &shown.Statements, "listStatements", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListStatements(ctx, oapi.ListStatementsRequestObject{Params: oapi.ListStatementsParams{Limit: new(few)}})
	})
	section(m, &shown.Ledger, "listLedger", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListLedger(ctx, oapi.ListLedgerRequestObject{Params: oapi.ListLedgerParams{Limit: new(few)}})
	})
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetBillingUsage handles GET /api/v3/billing/usage.
func (s *Handlers) GetBillingUsage(ctx context.Context, req oapi.GetBillingUsageRequestObject) (oapi.GetBillingUsageResponseObject, error) {
	m, shown := s.begin(ctx), oapi.BillingUsage{}
	p := req.Params
	primary(m, &shown.Summary, "getUsageSummary", func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetUsageSummary(ctx, oapi.GetUsageSummaryRequestObject{Params: oapi.GetUsageSummaryParams{
			Limit: p.Limit, Cursor: p.Cursor, From: p.From, To: p.To, By: (*oapi.GetUsageSummaryParamsBy)(p.By), XProjectID: p.XProjectID,
		}})
	})
	section(m, &shown.Usage, "getUsage", period(p.From, p.To), func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetUsage(ctx, oapi.GetUsageRequestObject{Params: oapi.GetUsageParams{From: p.From, To: p.To, XProjectID: p.XProjectID}})
	})
	section(m, &shown.Intervals, "listUsageIntervals", period(p.From, p.To), func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListUsageIntervals(ctx, oapi.ListUsageIntervalsRequestObject{Params: oapi.ListUsageIntervalsParams{From: p.From, To: p.To, XProjectID: p.XProjectID}})
	})
	return m.end(&shown, p.IfNoneMatch)
}

// period returns the parameters of a period.
func period(from, to *time.Time) url.Values {
	query := url.Values{}
	for name, at := range map[string]*time.Time{"from": from, "to": to} {
		if at != nil {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return query
}
