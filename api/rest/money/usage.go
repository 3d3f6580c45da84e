package money

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// GetUsage handles GET /api/v1/billing/usage.
func (s *Handlers) GetUsage(ctx context.Context, req oapi.GetUsageRequestObject) (oapi.GetUsageResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	var named labels
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after string, n int) ([]metering.Usage, error) {
		q.By, q.After, q.Limit = metering.ByAllocation, after, n
		list, err := s.Metering.Usage(ctx, q)
		if err == nil {
			named, err = labelsOf(ctx, s, list, func(u metering.Usage) uuid.UUID { return u.Allocation.UUID })
		}
		return list, err
	}, usageKey, func(u metering.Usage) oapi.Usage { return toUsage(u, named[u.Allocation.UUID]) })
	if err != nil {
		return nil, err
	}
	return oapi.GetUsage200JSONResponse{
		Body:    oapi.UsageList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.GetUsage200ResponseHeaders{Link: l.Link},
	}, nil
}

// used returns the query of the use that the caller may read. Roles of a project end at its border. A
// caller with a role in the tenant may name one project.
func (s *Handlers) used(r *request.Call, named *string, from, to *time.Time) (q metering.Query, err error) {
	q.Tenant = r.Caller.Tenant
	if request.Or(named, "") != "" || !r.OutsideProjects() {
		q.Project = r.Caller.Project
	}
	q.From, q.To, err = s.period(from, to)
	if err == nil {
		err = ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger")
	}
	return q, err
}

func usageKey(u metering.Usage) string { return u.Key }

func toUsage(u metering.Usage, l label) oapi.Usage {
	return oapi.Usage{
		AllocationId: u.Allocation.UUID, AllocationName: response.OrNil(l.Name), ProjectId: u.Project.UUID, ProjectName: response.OrNil(l.projectName), Sku: u.SKU, Gpus: u.GPUs, Price: response.Money(u.PriceMinor, u.Currency),
		StartedAt: u.StartedAt.UTC(), EndedAt: response.UTC(u.EndedAt), Seconds: u.Seconds,
		Credited: new(response.Money(u.CreditMinor, u.Currency)), Cost: response.Money(u.NetMinor, u.Currency),
	}
}

// GetUsageSummary handles GET /api/v1/billing/usage/summary.
func (s *Handlers) GetUsageSummary(ctx context.Context, req oapi.GetUsageSummaryRequestObject) (oapi.GetUsageSummaryResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	q.By = metering.By(request.Or(p.By, oapi.GetUsageSummaryParamsByProject))
	sums, link, err := s.summary(ctx, r, q, p.Cursor, p.Limit)
	return oapi.GetUsageSummary200JSONResponse{Body: sums, Headers: oapi.GetUsageSummary200ResponseHeaders{Link: link}}, err
}

// GetTenantUsage handles GET /api/v1/admin/tenants/{tenant_id}/usage.
func (s *Handlers) GetTenantUsage(ctx context.Context, req oapi.GetTenantUsageRequestObject) (oapi.GetTenantUsageResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	t, err := s.Identity.TenantByID(ctx, ids.From[ids.Tenant](req.TenantId))
	if err != nil {
		return nil, err
	}
	q := metering.Query{Tenant: t.ID, By: metering.By(request.Or(p.By, oapi.GetTenantUsageParamsByProject))}
	if q.From, q.To, err = s.period(p.From, p.To); err != nil {
		return nil, err
	}
	sums, link, err := s.summary(ctx, r, q, p.Cursor, p.Limit)
	return oapi.GetTenantUsage200JSONResponse{Body: sums, Headers: oapi.GetTenantUsage200ResponseHeaders{Link: link}}, err
}

// summary returns a page of the sums of the usage, and the link to the next page.
func (s *Handlers) summary(ctx context.Context, r *request.Call, q metering.Query, cursor *string, limit *int) (oapi.UsageSummary, *string, error) {
	names := map[uuid.UUID]string{}
	l, err := response.List(s.Cursors, r, cursor, limit, func(after string, n int) ([]metering.Usage, error) {
		q.After, q.Limit = after, n
		sums, err := s.Metering.Usage(ctx, q)
		if err == nil {
			names, err = s.namesOf(ctx, q.By, sums)
		}
		return sums, err
	}, usageKey, func(u metering.Usage) oapi.UsageSum { return toSum(u, names) })
	if err != nil {
		return oapi.UsageSummary{}, nil, err
	}
	return oapi.UsageSummary{By: oapi.UsageSummaryBy(q.By), From: q.From, To: q.To, Items: l.Items, NextCursor: l.Next}, l.Link, nil
}

// namesOf returns the names of the resources by which the use is summed.
func (s *Handlers) namesOf(ctx context.Context, by metering.By, sums []metering.Usage) (map[uuid.UUID]string, error) {
	which := make([]uuid.UUID, 0, len(sums))
	for _, u := range sums {
		if id, err := uuid.Parse(u.Key); err == nil {
			which = append(which, id)
		}
	}
	switch by {
	case metering.ByProject, metering.ByUser:
		return s.Identity.NamesOf(ctx, s.DB, which)
	case metering.ByAllocation:
		return s.Allocations.Names(ctx, which)
	case metering.BySKU, metering.ByDay:
	}
	return nil, nil //nolint:nilnil // a SKU and a day are called what they are
}

func toSum(u metering.Usage, names map[uuid.UUID]string) oapi.UsageSum {
	shown := oapi.UsageSum{
		Key: u.Key, Name: u.Key, Seconds: u.Seconds, GpuSeconds: u.GPUSeconds,
		Gross: response.Money(u.CostMinor, u.Currency), Credited: response.Money(u.CreditMinor, u.Currency), Cost: response.Money(u.NetMinor, u.Currency),
	}
	if u.GiBSeconds > 0 {
		shown.GibSeconds = &u.GiBSeconds
	}
	if id, err := uuid.Parse(u.Key); err == nil && names[id] != "" {
		shown.Name = names[id]
	}
	return shown
}

// ListUsageIntervals handles GET /api/v1/billing/usage/intervals.
func (s *Handlers) ListUsageIntervals(ctx context.Context, req oapi.ListUsageIntervalsRequestObject) (oapi.ListUsageIntervalsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	f := metering.Filter{Project: q.Project, Allocation: ids.From[ids.Allocation](request.Or(p.AllocationId, uuid.Nil)), From: q.From, To: q.To}
	var named labels
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]metering.Record, error) {
		f.After, f.Limit = after, n
		list, err := s.Metering.Intervals(ctx, q.Tenant, f)
		if err == nil {
			named, err = labelsOf(ctx, s, list, func(i metering.Record) uuid.UUID { return i.Allocation.UUID })
		}
		return list, err
	}, func(i metering.Record) uuid.UUID { return i.ID }, func(i metering.Record) oapi.UsageInterval { return s.toInterval(q.Tenant, i, named[i.Allocation.UUID]) })
	if err != nil {
		return nil, err
	}
	return oapi.ListUsageIntervals200JSONResponse{
		Body:    oapi.UsageIntervalList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListUsageIntervals200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) toInterval(tenant ids.Tenant, i metering.Record, l label) oapi.UsageInterval {
	shown := oapi.UsageInterval{
		Id: i.ID, Urn: s.Naming.Name(tenant.String(), i.Project.String(), "usage-interval", i.ID.String()).String(),
		CreatedAt: i.StartedAt.UTC(), UpdatedAt: response.Later(i.StartedAt, i.EndedAt), AllocationId: i.Allocation.UUID, AllocationName: response.OrNil(l.Name),
		ProjectId: i.Project.UUID, ProjectName: response.OrNil(l.projectName), Sku: i.SKU, Gpus: i.GPUs, Price: response.Money(i.PriceMinor, i.Currency),
		StartedAt: i.StartedAt.UTC(), EndedAt: response.UTC(i.EndedAt), OpenedBy: oapi.UsageIntervalOpenedBy(i.OpenedBy), OpenedObservation: observation(i.OpenedObservation),
		ClosedBy: response.OrNil(oapi.UsageIntervalClosedBy(i.ClosedBy)), ClosedObservation: observation(i.ClosedObservation), Seconds: i.Seconds,
		Cost: response.Money(i.CostMinor, i.Currency), Credited: response.Money(i.CreditMinor, i.Currency),
		CreditedBecause: response.OrNil(oapi.UsageIntervalCreditedBecause(i.CreditReason)),
	}
	if i.User != (ids.User{}) {
		shown.UserId = &i.User.UUID
	}
	return shown
}

// observation encodes the report that opened or closed an interval.
func observation(text json.RawMessage) *map[string]any {
	var seen map[string]any
	if json.Unmarshal(text, &seen) != nil || seen == nil {
		return nil
	}
	return &seen
}

// usageHeader names the columns of an export.
var usageHeader = []string{
	"interval_id", "allocation_id", "project_id", "user_id", "sku", "gpus", "price_minor", "currency", "started_at", "ended_at", "seconds",
	"gross_minor", "credited_minor", "cost_minor", "opened_by", "closed_by",
}

// ExportUsage handles GET /api/v1/billing/usage/csv.
func (s *Handlers) ExportUsage(ctx context.Context, req oapi.ExportUsageRequestObject) (oapi.ExportUsageResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	f := metering.Filter{Project: q.Project, From: q.From, To: q.To}
	probe := f
	probe.Limit = 1
	if _, err := s.Metering.Intervals(ctx, q.Tenant, probe); err != nil {
		return nil, err
	}
	return s.Exports.CSV(ctx, "usage.csv", usageHeader, func(out func(...string) error) error {
		return s.Metering.EachInterval(ctx, q.Tenant, f, func(i metering.Record) error { return out(usageLine(i)...) })
	}), nil
}

func usageLine(i metering.Record) []string {
	user, ended := "", ""
	if i.User != (ids.User{}) {
		user = i.User.String()
	}
	if i.EndedAt != nil {
		ended = response.Timestamp(*i.EndedAt)
	}
	return []string{
		i.ID.String(), i.Allocation.String(), i.Project.String(), user, response.SafeCell(i.SKU), strconv.Itoa(i.GPUs), response.Minor(i.PriceMinor), i.Currency,
		response.Timestamp(i.StartedAt), ended, strconv.FormatInt(i.Seconds, 10), response.Minor(i.CostMinor), response.Minor(i.CreditMinor), response.Minor(i.CostMinor - i.CreditMinor),
		string(i.OpenedBy), string(i.ClosedBy),
	}
}
