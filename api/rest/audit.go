package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// ListAuditLogs handles GET /api/v1/audit-logs.
func (s *Server) ListAuditLogs(ctx context.Context, req oapi.ListAuditLogsRequestObject) (oapi.ListAuditLogsResponseObject, error) {
	ctx, r := of(ctx)
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
		Body:    oapi.AuditList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListAuditLogs200ResponseHeaders{Link: l.link},
	}, nil
}

// ListAdminAuditLogs handles GET /api/v1/admin/audit-logs.
func (s *Server) ListAdminAuditLogs(ctx context.Context, req oapi.ListAdminAuditLogsRequestObject) (oapi.ListAdminAuditLogsResponseObject, error) {
	ctx, r := of(ctx)
	p := req.Params
	l, err := s.auditPage(ctx, r, auditQuery(p.Tenant, p.Actor, p.Action, p.Target, p.From, p.To), p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminAuditLogs200JSONResponse{
		Body:    oapi.AuditList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListAdminAuditLogs200ResponseHeaders{Link: l.link},
	}, nil
}

// ExportAuditLogs handles GET /api/v1/audit-logs/export.
func (s *Server) ExportAuditLogs(ctx context.Context, req oapi.ExportAuditLogsRequestObject) (oapi.ExportAuditLogsResponseObject, error) {
	ctx, r := of(ctx)
	p := req.Params
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	return s.auditCSV(ctx, auditQuery(tenant, p.Actor, p.Action, p.Target, p.From, p.To))
}

// ExportAdminAuditLogs handles GET /api/v1/admin/audit-logs/export.
func (s *Server) ExportAdminAuditLogs(ctx context.Context, req oapi.ExportAdminAuditLogsRequestObject) (oapi.ExportAdminAuditLogsResponseObject, error) {
	ctx, _ = of(ctx)
	p := req.Params
	return s.auditCSV(ctx, auditQuery(p.Tenant, p.Actor, p.Action, p.Target, p.From, p.To))
}

// tenantOf refuses a caller who is of no tenant: to the audit log, no tenant means
// all of them.
func tenantOf(r *call) (*uuid.UUID, error) {
	if r.caller.Tenant == (ids.Tenant{}) {
		return nil, errs.New(errs.NotFound, "you are in no tenant").Try("operators use /api/v1/admin/audit-logs")
	}
	return &r.caller.Tenant.UUID, nil
}

func auditQuery(tenant *uuid.UUID, actor, action, target *string, from, to *time.Time) audit.Query {
	return audit.Query{
		Tenant: ids.From[ids.Tenant](or(tenant, uuid.Nil)), Actor: or(actor, ""), Action: or(action, ""), Target: or(target, ""),
		From: or(from, time.Time{}), To: or(to, time.Time{}),
	}
}

func (s *Server) auditPage(ctx context.Context, r *call, q audit.Query, cursor *string, limit *int) (listed[oapi.AuditRecord], error) {
	return pageOf(s, r, cursor, limit, func(after audit.Place, n int) ([]audit.Record, error) {
		q.After, q.Limit = after, n
		return s.AuditLog.Search(ctx, q)
	}, audit.Record.Place, toAudit)
}

func toAudit(a audit.Record) oapi.AuditRecord {
	shown := oapi.AuditRecord{Id: a.ID, OccurredAt: a.At.UTC(), Actor: a.Actor, Action: a.Action, Target: a.Target, CorrelationId: a.CorrelationID}
	if a.Tenant != (ids.Tenant{}) {
		shown.TenantId = &a.Tenant.UUID
	}
	shown.Before, shown.After = document(a.Before), document(a.After)
	return shown
}

// document is JSON as it was stored, and missing where there is none.
func document(text json.RawMessage) any {
	if text == nil {
		return nil
	}
	return text
}

// auditHeader names the columns of an export.
var auditHeader = []string{"id", "occurred_at", "tenant_id", "actor", "action", "target", "correlation_id", "before", "after"}

// auditCSV starts an answer of any length.
func (s *Server) auditCSV(ctx context.Context, q audit.Query) (csvStream, error) {
	probe := q
	probe.Limit = 1
	if _, err := s.AuditLog.Search(ctx, probe); err != nil {
		return nil, err
	}
	return s.csv(ctx, table{"audit.csv", auditHeader, func(out func(...string) error) error {
		return s.AuditLog.Export(ctx, q, func(a audit.Record) error { return out(auditLine(a)...) })
	}}), nil
}

func auditLine(a audit.Record) []string {
	tenant := ""
	if a.Tenant != (ids.Tenant{}) {
		tenant = a.Tenant.String()
	}
	line := []string{a.ID.String(), a.At.UTC().Format(time.RFC3339Nano), tenant, a.Actor, a.Action, a.Target, a.CorrelationID, string(a.Before), string(a.After)}
	for i, cell := range line {
		line[i] = inert(cell)
	}
	return line
}

// VisitExportAuditLogsResponse writes the rows as they are read.
func (write csvStream) VisitExportAuditLogsResponse(w http.ResponseWriter) error { return write(w) }

// VisitExportAdminAuditLogsResponse writes the rows as they are read.
func (write csvStream) VisitExportAdminAuditLogsResponse(w http.ResponseWriter) error {
	return write(w)
}
