package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// ListAuditLogs handles GET /api/v1/audit-logs.
func (s *Handlers) ListAuditLogs(ctx context.Context, req oapi.ListAuditLogsRequestObject) (oapi.ListAuditLogsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	l, err := s.auditPage(ctx, r, auditQuery(tenant, p.Actor, p.Action, p.Target, p.From, p.To), p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListAuditLogs200JSONResponse{
		Body:    oapi.AuditList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAuditLogs200ResponseHeaders{Link: l.Link},
	}, nil
}

// ListAdminAuditLogs handles GET /api/v1/admin/audit-logs.
func (s *Handlers) ListAdminAuditLogs(ctx context.Context, req oapi.ListAdminAuditLogsRequestObject) (oapi.ListAdminAuditLogsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	l, err := s.auditPage(ctx, r, auditQuery(p.Tenant, p.Actor, p.Action, p.Target, p.From, p.To), p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminAuditLogs200JSONResponse{
		Body:    oapi.AuditList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAdminAuditLogs200ResponseHeaders{Link: l.Link},
	}, nil
}

// ExportAuditLogs handles GET /api/v1/audit-logs/export.
func (s *Handlers) ExportAuditLogs(ctx context.Context, req oapi.ExportAuditLogsRequestObject) (oapi.ExportAuditLogsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	return s.auditCSV(ctx, auditQuery(tenant, p.Actor, p.Action, p.Target, p.From, p.To))
}

// ExportAdminAuditLogs handles GET /api/v1/admin/audit-logs/export.
func (s *Handlers) ExportAdminAuditLogs(ctx context.Context, req oapi.ExportAdminAuditLogsRequestObject) (oapi.ExportAdminAuditLogsResponseObject, error) {
	ctx, _ = request.Of(ctx)
	p := req.Params
	return s.auditCSV(ctx, auditQuery(p.Tenant, p.Actor, p.Action, p.Target, p.From, p.To))
}

// tenantOf rejects a caller without a tenant, because the audit log treats a missing tenant as all
// tenants.
func tenantOf(r *request.Call) (*uuid.UUID, error) {
	if r.Caller.Tenant == (ids.Tenant{}) {
		return nil, errs.New(errs.NotFound, "you are in no tenant").Try("operators use /api/v1/admin/audit-logs")
	}
	return &r.Caller.Tenant.UUID, nil
}

func auditQuery(tenant *uuid.UUID, actor, action, target *string, from, to *time.Time) audit.Query {
	return audit.Query{
		Tenant: ids.From[ids.Tenant](request.Or(tenant, uuid.Nil)), Actor: request.Or(actor, ""), Action: request.Or(action, ""), Target: request.Or(target, ""),
		From: request.Or(from, time.Time{}), To: request.Or(to, time.Time{}),
	}
}

func (s *Handlers) auditPage(ctx context.Context, r *request.Call, q audit.Query, cursor *string, limit *int) (response.ListPage[oapi.AuditRecord], error) {
	return response.List(s.Cursors, r, cursor, limit, func(after audit.Place, n int) ([]audit.Record, error) {
		q.After, q.Limit = after, n
		return s.Audit.Search(ctx, q)
	}, audit.Record.Place, s.toAudit)
}

func (s *Handlers) toAudit(a audit.Record) oapi.AuditRecord {
	at, tenant := a.At.UTC(), ""
	if a.Tenant != (ids.Tenant{}) {
		tenant = a.Tenant.String()
	}
	shown := oapi.AuditRecord{
		Id: a.ID, Urn: s.Naming.Name(tenant, "", "audit-record", a.ID.String()).String(), CreatedAt: at, UpdatedAt: at, OccurredAt: at,
		Actor: a.Actor, Action: a.Action, Target: a.Target, CorrelationId: a.CorrelationID,
	}
	if a.Tenant != (ids.Tenant{}) {
		shown.TenantId = &a.Tenant.UUID
	}
	shown.ClientAddress, shown.UserAgent = response.OrNil(a.Address), response.OrNil(a.UserAgent)
	shown.Before, shown.After = document(a.Before), document(a.After)
	return shown
}

// document encodes stored JSON, and omits it where there is none.
func document(text json.RawMessage) any {
	if text == nil {
		return nil
	}
	return text
}

// auditHeader names the columns of an export.
var auditHeader = []string{"id", "occurred_at", "tenant_id", "actor", "action", "target", "correlation_id", "before", "after", "client_address", "user_agent"}

// auditCSV starts an answer of any length.
func (s *Handlers) auditCSV(ctx context.Context, q audit.Query) (response.CSVStream, error) {
	probe := q
	probe.Limit = 1
	if _, err := s.Audit.Search(ctx, probe); err != nil {
		return nil, err
	}
	return s.Exports.CSV(ctx, "audit.csv", auditHeader, func(out func(...string) error) error {
		return s.Audit.Export(ctx, q, func(a audit.Record) error { return out(auditLine(a)...) })
	}), nil
}

func auditLine(a audit.Record) []string {
	tenant := ""
	if a.Tenant != (ids.Tenant{}) {
		tenant = a.Tenant.String()
	}
	line := []string{a.ID.String(), a.At.UTC().Format(time.RFC3339Nano), tenant, a.Actor, a.Action, a.Target, a.CorrelationID, string(a.Before), string(a.After), a.Address, a.UserAgent}
	for i, cell := range line {
		line[i] = response.SafeCell(cell)
	}
	return line
}
