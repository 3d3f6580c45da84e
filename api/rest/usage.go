package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// GetUsage handles GET /api/v1/billing/usage.
func (s *Server) GetUsage(ctx context.Context, req oapi.GetUsageRequestObject) (oapi.GetUsageResponseObject, error) {
	ctx, r := of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	l, err := pageOf(s, r, p.Cursor, p.Limit, func(after string, n int) ([]metering.Usage, error) {
		q.By, q.After, q.Limit = metering.ByAllocation, after, n
		return s.Metering.Usage(ctx, q)
	}, usageKey, toUsage)
	if err != nil {
		return nil, err
	}
	return oapi.GetUsage200JSONResponse{
		Body:    oapi.UsageList{Items: l.items, NextCursor: l.next},
		Headers: oapi.GetUsage200ResponseHeaders{Link: l.link},
	}, nil
}

// used is what the caller may see of the tenant's use: what roles of a project
// show ends at its border, and who sees all may ask for one.
func (s *Server) used(r *call, named *string, from, to *time.Time) (q metering.Query, err error) {
	q.Tenant = r.caller.Tenant
	if or(named, "") != "" || !r.everywhere() {
		q.Project = r.caller.Project
	}
	q.From, q.To, err = s.period(from, to)
	if err == nil {
		err = ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger")
	}
	return q, err
}

func usageKey(u metering.Usage) string { return u.Key }

func toUsage(u metering.Usage) oapi.Usage {
	return oapi.Usage{
		AllocationId: u.Allocation.UUID, ProjectId: u.Project.UUID, Sku: u.SKU, Gpus: u.GPUs, Price: amount(u.PriceMinor, u.Currency),
		StartedAt: u.StartedAt.UTC(), EndedAt: utc(u.EndedAt), Seconds: u.Seconds,
		Credited: new(amount(u.CreditMinor, u.Currency)), Cost: amount(u.NetMinor, u.Currency),
	}
}

// GetUsageSummary handles GET /api/v1/billing/usage/summary.
func (s *Server) GetUsageSummary(ctx context.Context, req oapi.GetUsageSummaryRequestObject) (oapi.GetUsageSummaryResponseObject, error) {
	ctx, r := of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	by := or(p.By, oapi.GetUsageSummaryParamsByProject)
	q.By = metering.By(by)
	names := map[uuid.UUID]string{}
	l, err := pageOf(s, r, p.Cursor, p.Limit, func(after string, n int) ([]metering.Usage, error) {
		q.After, q.Limit = after, n
		sums, err := s.Metering.Usage(ctx, q)
		if err == nil {
			names, err = s.namesOf(ctx, q.By, sums)
		}
		return sums, err
	}, usageKey, func(u metering.Usage) oapi.UsageSum { return toSum(u, names) })
	if err != nil {
		return nil, err
	}
	return oapi.GetUsageSummary200JSONResponse{
		Body:    oapi.UsageSummary{By: oapi.UsageSummaryBy(by), From: q.From, To: q.To, Items: l.items, NextCursor: l.next},
		Headers: oapi.GetUsageSummary200ResponseHeaders{Link: l.link},
	}, nil
}

// namesOf are what people call the things that are summed by.
func (s *Server) namesOf(ctx context.Context, by metering.By, sums []metering.Usage) (map[uuid.UUID]string, error) {
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
		Gross: amount(u.CostMinor, u.Currency), Credited: amount(u.CreditMinor, u.Currency), Cost: amount(u.NetMinor, u.Currency),
	}
	if id, err := uuid.Parse(u.Key); err == nil && names[id] != "" {
		shown.Name = names[id]
	}
	return shown
}

// ListUsageIntervals handles GET /api/v1/billing/usage/intervals.
func (s *Server) ListUsageIntervals(ctx context.Context, req oapi.ListUsageIntervalsRequestObject) (oapi.ListUsageIntervalsResponseObject, error) {
	ctx, r := of(ctx)
	p := req.Params
	q, err := s.used(r, p.XProjectID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	f := metering.Filter{Project: q.Project, Allocation: ids.From[ids.Allocation](or(p.AllocationId, uuid.Nil)), From: q.From, To: q.To}
	l, err := pageOf(s, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]metering.Record, error) {
		f.After, f.Limit = after, n
		return s.Metering.Intervals(ctx, q.Tenant, f)
	}, func(i metering.Record) uuid.UUID { return i.ID }, toInterval)
	if err != nil {
		return nil, err
	}
	return oapi.ListUsageIntervals200JSONResponse{
		Body:    oapi.UsageIntervalList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListUsageIntervals200ResponseHeaders{Link: l.link},
	}, nil
}

func toInterval(i metering.Record) oapi.UsageInterval {
	shown := oapi.UsageInterval{
		Id: i.ID, AllocationId: i.Allocation.UUID, ProjectId: i.Project.UUID, Sku: i.SKU, Gpus: i.GPUs, Price: amount(i.PriceMinor, i.Currency),
		StartedAt: i.StartedAt.UTC(), EndedAt: utc(i.EndedAt), OpenedBy: oapi.UsageIntervalOpenedBy(i.OpenedBy), OpenedObservation: observation(i.OpenedSeen),
		ClosedBy: filled(oapi.UsageIntervalClosedBy(i.ClosedBy)), ClosedObservation: observation(i.ClosedSeen), Seconds: i.Seconds,
		Cost: amount(i.CostMinor, i.Currency), Credited: amount(i.CreditMinor, i.Currency),
		CreditedBecause: filled(oapi.UsageIntervalCreditedBecause(i.CreditReason)),
	}
	if i.User != (ids.User{}) {
		shown.UserId = &i.User.UUID
	}
	return shown
}

// observation is what was seen, as it was kept.
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
func (s *Server) ExportUsage(ctx context.Context, req oapi.ExportUsageRequestObject) (oapi.ExportUsageResponseObject, error) {
	ctx, r := of(ctx)
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
	return s.csv(ctx, table{"usage.csv", usageHeader, func(out func(...string) error) error {
		return s.Metering.EachInterval(ctx, q.Tenant, f, func(i metering.Record) error { return out(usageLine(i)...) })
	}}), nil
}

func usageLine(i metering.Record) []string {
	user, ended := "", ""
	if i.User != (ids.User{}) {
		user = i.User.String()
	}
	if i.EndedAt != nil {
		ended = at(*i.EndedAt)
	}
	return []string{
		i.ID.String(), i.Allocation.String(), i.Project.String(), user, inert(i.SKU), strconv.Itoa(i.GPUs), minor(i.PriceMinor), i.Currency,
		at(i.StartedAt), ended, strconv.FormatInt(i.Seconds, 10), minor(i.CostMinor), minor(i.CreditMinor), minor(i.CostMinor - i.CreditMinor),
		string(i.OpenedBy), string(i.ClosedBy),
	}
}

// VisitExportUsageResponse writes the rows as they are read.
func (write csvStream) VisitExportUsageResponse(w http.ResponseWriter) error { return write(w) }
