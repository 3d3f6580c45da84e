package money

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
)

// GetBillingEvidence handles GET /api/v1/billing/evidence.
func (s *Handlers) GetBillingEvidence(ctx context.Context, req oapi.GetBillingEvidenceRequestObject) (oapi.GetBillingEvidenceResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, "/api/v1/admin/tenants/{tenant_id}/ledger"); err != nil {
		return nil, err
	}
	day := s.Clock.Now()
	if req.Params.Day != nil {
		day = req.Params.Day.Time
	}
	e, err := s.Statements.Evidence(ctx, r.Caller.Tenant, day)
	if err != nil {
		return nil, err
	}
	// The document is the one that the offline check decodes.
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding evidence: %w", err)
	}
	var body oapi.GetBillingEvidence200JSONResponse
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, fmt.Errorf("encoding evidence: %w", err)
	}
	return body, nil
}
