package money

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// ListStatements handles GET /api/v1/billing/statements.
func (s *Handlers) ListStatements(ctx context.Context, req oapi.ListStatementsRequestObject) (oapi.ListStatementsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger"); err != nil {
		return nil, err
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(before time.Time, n int) ([]billing.Totals, error) {
		return s.Statements.Months(ctx, r.Caller.Tenant, before, n)
	}, func(t billing.Totals) time.Time { return t.From }, toTotals)
	if err != nil {
		return nil, err
	}
	return oapi.ListStatements200JSONResponse{
		Body:    oapi.StatementList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListStatements200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetStatement handles GET /api/v1/billing/statements/{month}.
func (s *Handlers) GetStatement(ctx context.Context, req oapi.GetStatementRequestObject) (oapi.GetStatementResponseObject, error) {
	st, err := s.statement(ctx, req.Month)
	if err != nil {
		return nil, err
	}
	return oapi.GetStatement200JSONResponse(s.toStatement(st)), nil
}

// statement reads that of the caller's tenant.
func (s *Handlers) statement(ctx context.Context, month string) (billing.Statement, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger"); err != nil {
		return billing.Statement{}, err
	}
	m, err := time.Parse("2006-01", month)
	if err != nil {
		return billing.Statement{}, errs.Invalid("month", "is not a month, such as 2026-01")
	}
	return s.Statements.Statement(ctx, r.Caller.Tenant, m)
}

func toTotals(t billing.Totals) oapi.StatementTotals {
	return oapi.StatementTotals{
		Month: t.Month(), From: t.From, To: t.To, Final: t.Final, Currency: t.Currency,
		OpeningMinor: int64(t.Opening), TopupsMinor: int64(t.TopUps), UsageMinor: int64(t.Usage), StorageMinor: int64(t.Storage), CreditsMinor: int64(t.Credits),
		RefundsMinor: int64(t.Refunds), AdjustmentsMinor: int64(t.Adjustments), ClosingMinor: int64(t.Closing),
	}
}

func (s *Handlers) toStatement(st billing.Statement) oapi.Statement {
	t := toTotals(st.Totals)
	shown := oapi.Statement{
		Month: t.Month, From: t.From, To: t.To, Final: t.Final, Currency: t.Currency, OpeningMinor: t.OpeningMinor, TopupsMinor: t.TopupsMinor,
		UsageMinor: t.UsageMinor, StorageMinor: t.StorageMinor, CreditsMinor: t.CreditsMinor, RefundsMinor: t.RefundsMinor, AdjustmentsMinor: t.AdjustmentsMinor, ClosingMinor: t.ClosingMinor,
		Tenant: oapi.StatementTenant{Id: st.Tenant.ID.UUID, Urn: s.Naming.Name(st.Tenant.ID.String(), "", "tenant", st.Tenant.ID.String()).String(), Name: st.Tenant.Name},
		Usage:  make([]oapi.StatementUsage, len(st.Uses)), Storage: make([]oapi.StatementStorage, len(st.Stored)), Movements: make([]oapi.StatementMovement, len(st.Movements)),
	}
	for i, u := range st.Uses {
		shown.Usage[i] = oapi.StatementUsage{
			ProjectId: u.Project.UUID, Project: u.ProjectName, Sku: u.SKU, AllocationId: u.Allocation.UUID, Gpus: u.GPUs, Seconds: u.Seconds,
			GrossMinor: int64(u.CostMinor), CreditedMinor: int64(u.CreditMinor), CostMinor: int64(u.NetMinor),
		}
	}
	for i, u := range st.Stored {
		shown.Storage[i] = oapi.StatementStorage{ProjectId: u.Project.UUID, Project: u.ProjectName, ByteSeconds: u.ByteSeconds, CostMinor: int64(u.CostMinor)}
	}
	shown.Projects = []oapi.StatementProject{}
	for _, p := range st.Projects() {
		shown.Projects = append(shown.Projects, oapi.StatementProject{
			ProjectId: p.Project.UUID, Project: p.Name, Seconds: p.Seconds, GrossMinor: int64(p.CostMinor), CreditedMinor: int64(p.CreditMinor), CostMinor: int64(p.NetMinor),
		})
	}
	for i, e := range st.Movements {
		shown.Movements[i] = oapi.StatementMovement{
			OccurredAt: e.At.UTC(), Kind: oapi.TransferKind(e.Kind), Reference: e.Reference, Note: response.OrNil(e.Note), TransferId: e.Transfer, AmountMinor: int64(e.AmountMinor),
		}
	}
	return shown
}

// statementHeader names the columns of an export. Its amounts sum to the closing
// balance, down to the line with the sum.
var statementHeader = []string{"line", "project", "sku", "allocation_id", "occurred_at", "kind", "reference", "seconds", "amount_minor", "currency"}

// ExportStatement handles GET /api/v1/billing/statements/{month}/csv.
func (s *Handlers) ExportStatement(ctx context.Context, req oapi.ExportStatementRequestObject) (oapi.ExportStatementResponseObject, error) {
	st, err := s.statement(ctx, req.Month)
	if err != nil {
		return nil, err
	}
	ctx, _ = request.Of(ctx)
	return s.Exports.CSV(ctx, "statement-"+st.Month()+".csv", statementHeader, func(out func(...string) error) error {
		return statementLines(st, out)
	}), nil
}

func statementLines(st billing.Statement, out func(...string) error) error {
	if err := out("opening", "", "", "", response.Timestamp(st.From), "", "", "", response.Minor(st.Opening), st.Currency); err != nil {
		return err
	}
	for _, u := range st.Uses {
		if err := out("usage", response.SafeCell(u.ProjectName), response.SafeCell(u.SKU), u.Allocation.String(), "", string(ledger.Usage), "",
			strconv.FormatInt(u.Seconds, 10), response.Minor(-u.CostMinor), st.Currency); err != nil {
			return err
		}
	}
	for _, u := range st.Stored {
		if err := out("storage", response.SafeCell(u.ProjectName), "", "", "", string(ledger.Storage), "", "", response.Minor(-u.CostMinor), st.Currency); err != nil {
			return err
		}
	}
	for _, e := range st.Movements {
		allocation := ""
		if e.Allocation != nil {
			allocation = e.Allocation.String()
		}
		if err := out("movement", "", "", allocation, response.Timestamp(e.At), string(e.Kind), response.SafeCell(e.Reference), "", response.Minor(e.AmountMinor), st.Currency); err != nil {
			return err
		}
	}
	return out("closing", "", "", "", response.Timestamp(st.To), "", "", "", response.Minor(st.Closing), st.Currency)
}

// GetStatementPage handles GET /api/v1/billing/statements/{month}/page.
func (s *Handlers) GetStatementPage(ctx context.Context, req oapi.GetStatementPageRequestObject) (oapi.GetStatementPageResponseObject, error) {
	st, err := s.statement(ctx, req.Month)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := statementPage.Execute(&out, pageOfStatement(st)); err != nil {
		return nil, err
	}
	return page200(out.Bytes()), nil
}

// page200 replaces the generated response, which does not set the headers of pages.
type page200 []byte

// VisitGetStatementPageResponse writes the page, under the policy of all pages.
func (p page200) VisitGetStatementPageResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Security-Policy", page.ContentSecurityPolicy)
	h.Set("Content-Type", page.ContentType)
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(p)
	return err
}
