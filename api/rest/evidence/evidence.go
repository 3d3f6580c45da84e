// Package evidence serves evidence bundles.
package evidence

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of evidence bundles.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
}

// CreateEvidence handles POST /api/v1/allocations/{id}/evidence.
func (s *Handlers) CreateEvidence(ctx context.Context, req oapi.CreateEvidenceRequestObject) (oapi.CreateEvidenceResponseObject, error) {
	ctx, r := request.Of(ctx)
	all, err := s.Allocations.Some(ctx, []uuid.UUID{req.Id})
	if err != nil {
		return nil, err
	}
	a, found := all[req.Id]
	if !found || a.Project != r.Caller.Project && !r.OutsideProjects() {
		return nil, errs.New(errs.NotFound, "no such allocation")
	}
	made, err := s.Evidence.Request(ctx, response.Change(r, func(made evidence.Record) identity.Reply {
		return response.Reply(http.StatusAccepted, s.toEvidence(made), "", "")
	}), a.Tenant, a.ID, a.URN(s.Naming))
	if err != nil {
		return nil, err
	}
	return oapi.CreateEvidence202JSONResponse{Body: s.toEvidence(made)}, nil
}

// ListEvidence handles GET /api/v1/evidence.
func (s *Handlers) ListEvidence(ctx context.Context, req oapi.ListEvidenceRequestObject) (oapi.ListEvidenceResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := evidence.Filter{Kind: bundle.Kind(request.Or(p.Kind, "")), About: request.Or(p.About, ""), Status: string(request.Or(p.Status, ""))}
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]evidence.Record, error) {
		f.After, f.Limit = after, n
		return s.Evidence.List(ctx, f)
	}, func(e evidence.Record) uuid.UUID { return e.ID }, s.toEvidence)
	if err != nil {
		return nil, err
	}
	return oapi.ListEvidence200JSONResponse{
		Body: oapi.EvidenceList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListEvidence200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetEvidence handles GET /api/v1/evidence/{id}.
func (s *Handlers) GetEvidence(ctx context.Context, req oapi.GetEvidenceRequestObject) (oapi.GetEvidenceResponseObject, error) {
	ctx, _ = request.Of(ctx)
	e, file, err := s.Evidence.Open(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	shown := s.toEvidence(e)
	shown.File = response.OrNil(string(file))
	return oapi.GetEvidence200JSONResponse(shown), nil
}

func (s *Handlers) toEvidence(e evidence.Record) oapi.EvidenceBundle {
	return oapi.EvidenceBundle{
		Id: e.ID, Urn: e.URN(s.Naming), TenantId: e.Tenant, Kind: oapi.EvidenceKind(e.Kind), About: e.About, RequestedBy: e.RequestedBy, Status: oapi.EvidenceStatus(e.Status),
		FailureCode: response.OrNil(e.FailureCode), FailureMessage: response.OrNil(e.FailureMessage),
		Number: e.Number, Sha256: e.SHA256, SizeBytes: e.Size, KeyId: e.KeyID, PublicKey: response.OrNil(base64.StdEncoding.EncodeToString(e.PublicKey)),
		CreatedAt: e.CreatedAt.UTC(), UpdatedAt: e.UpdatedAt.UTC(), SignedAt: response.UTC(e.SignedAt),
	}
}
