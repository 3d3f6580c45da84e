package money

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// ListLedger handles GET /api/v1/billing/ledger.
func (s *Handlers) ListLedger(ctx context.Context, req oapi.ListLedgerRequestObject) (oapi.ListLedgerResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger"); err != nil {
		return nil, err
	}
	f, err := s.entriesOf(entryParams{p.From, p.To, p.Kind, p.AllocationId, p.ProjectId})
	if err != nil {
		return nil, err
	}
	l, err := s.ledgerPage(ctx, r, r.Caller.Tenant, f, p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListLedger200JSONResponse{
		Body:    oapi.LedgerList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListLedger200ResponseHeaders{Link: l.Link},
	}, nil
}

// ListTenantLedger handles GET /api/v1/admin/tenants/{tenant_id}/ledger.
func (s *Handlers) ListTenantLedger(ctx context.Context, req oapi.ListTenantLedgerRequestObject) (oapi.ListTenantLedgerResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	tenant, err := s.Identity.TenantByID(ctx, ids.From[ids.Tenant](req.TenantId))
	if err != nil {
		return nil, err
	}
	f, err := s.entriesOf(entryParams{p.From, p.To, p.Kind, p.AllocationId, p.ProjectId})
	if err != nil {
		return nil, err
	}
	l, err := s.ledgerPage(ctx, r, tenant.ID, f, p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListTenantLedger200JSONResponse{
		Body:    oapi.LedgerList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListTenantLedger200ResponseHeaders{Link: l.Link},
	}, nil
}

// entryParams are the filters of the three lists of entries.
type entryParams struct {
	from, to   *time.Time
	kind       *oapi.TransferKind
	allocation *uuid.UUID
	project    *uuid.UUID
}

func (s *Handlers) entriesOf(p entryParams) (f ledger.Filter, err error) {
	f = ledger.Filter{Kind: ledger.Kind(request.Or(p.kind, "")), Allocation: ids.From[ids.Allocation](request.Or(p.allocation, uuid.Nil))}
	if f.From, f.To, err = s.period(p.from, p.to); err != nil || p.project == nil {
		return f, err
	}
	f.Subset = metering.InProject(ids.From[ids.Project](*p.project))
	return f, nil
}

func (s *Handlers) ledgerPage(ctx context.Context, r *request.Call, tenant ids.Tenant, f ledger.Filter, cursor *string, limit *int) (response.ListPage[oapi.LedgerEntry], error) {
	var named labels
	return response.List(s.Cursors, r, cursor, limit, func(after int64, n int) ([]ledger.Entry, error) {
		f.After, f.Limit = after, n
		list, err := s.Ledger.Entries(ctx, tenant, f)
		if err == nil {
			named, err = labelsOf(ctx, s, list, func(e ledger.Entry) uuid.UUID { return request.Or(bare(e.Allocation), uuid.Nil) })
		}
		return list, err
	}, func(e ledger.Entry) int64 { return e.ID }, func(e ledger.Entry) oapi.LedgerEntry { return s.entryOf(tenant, e, named) })
}

// entryOf encodes an entry of a tenant. An entry never changes.
func (s *Handlers) entryOf(tenant ids.Tenant, e ledger.Entry, named labels) oapi.LedgerEntry {
	at := e.At.UTC()
	shown := oapi.LedgerEntry{
		Id: e.ID, Urn: s.Naming.Name(tenant.String(), "", "ledger-entry", strconv.FormatInt(e.ID, 10)).String(), CreatedAt: at, UpdatedAt: at, OccurredAt: at,
		TransferId: e.Transfer, Kind: oapi.TransferKind(e.Kind), Reference: e.Reference, Note: response.OrNil(e.Note),
		AllocationId: bare(e.Allocation), AmountMinor: int64(e.AmountMinor), Currency: e.Currency,
	}
	if l, ok := named[request.Or(shown.AllocationId, uuid.Nil)]; ok {
		shown.AllocationName, shown.ProjectId, shown.ProjectName, shown.Sku = &l.Name, &l.Project.UUID, response.OrNil(l.projectName), &l.SKU
	}
	return shown
}

// bare returns the id of an allocation, or nil without one.
func bare(a *ids.Allocation) *uuid.UUID {
	if a == nil {
		return nil
	}
	return &a.UUID
}

// ledgerHeader names the columns of an export.
var ledgerHeader = []string{"id", "occurred_at", "transfer_id", "kind", "reference", "allocation_id", "amount_minor", "currency", "note"}

// ExportLedger handles GET /api/v1/billing/ledger/csv.
func (s *Handlers) ExportLedger(ctx context.Context, req oapi.ExportLedgerRequestObject) (oapi.ExportLedgerResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger"); err != nil {
		return nil, err
	}
	f, err := s.entriesOf(entryParams{p.From, p.To, p.Kind, p.AllocationId, p.ProjectId})
	if err != nil {
		return nil, err
	}
	probe := f
	probe.Limit = 1
	if _, err := s.Ledger.Entries(ctx, r.Caller.Tenant, probe); err != nil {
		return nil, err
	}
	return s.Exports.CSV(ctx, "ledger.csv", ledgerHeader, func(out func(...string) error) error {
		return s.Ledger.EachEntry(ctx, r.Caller.Tenant, f, func(e ledger.Entry) error { return out(ledgerLine(e)...) })
	}), nil
}

// Amounts begin with a minus where money was spent, and are numbers all the same:
// only texts are made inert.
func ledgerLine(e ledger.Entry) []string {
	allocation := ""
	if e.Allocation != nil {
		allocation = e.Allocation.String()
	}
	return []string{
		strconv.FormatInt(e.ID, 10), response.Timestamp(e.At), e.Transfer.String(), string(e.Kind), response.SafeCell(e.Reference), allocation, response.Minor(e.AmountMinor), e.Currency, response.SafeCell(e.Note),
	}
}
