package change

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListGitSources handles GET /api/v1/admin/git-sources.
func (s *Handlers) ListGitSources(ctx context.Context, req oapi.ListGitSourcesRequestObject) (oapi.ListGitSourcesResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]revision.SourceState, error) {
		return s.Desired.Sources(ctx, after, n)
	}, func(g revision.SourceState) string { return g.Name }, s.toGitSource)
	if err != nil {
		return nil, err
	}
	return oapi.ListGitSources200JSONResponse{
		Body:    oapi.GitSourceList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListGitSources200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetGitSource handles GET /api/v1/admin/git-sources/{name}.
func (s *Handlers) GetGitSource(ctx context.Context, req oapi.GetGitSourceRequestObject) (oapi.GetGitSourceResponseObject, error) {
	ctx, _ = request.Of(ctx)
	g, err := s.Desired.SourceByName(ctx, s.DB, req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.GetGitSource200JSONResponse{Body: s.toGitSource(g), Headers: oapi.GetGitSource200ResponseHeaders{ETag: request.ETag(g.Version)}}, nil
}

// SyncGitSource handles POST /api/v1/admin/git-sources/{name}/sync.
func (s *Handlers) SyncGitSource(ctx context.Context, req oapi.SyncGitSourceRequestObject) (oapi.SyncGitSourceResponseObject, error) {
	ctx, r := request.Of(ctx)
	g, err := s.Changes.RequestSync(ctx, s.keepSource(r, http.StatusAccepted), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.SyncGitSource202JSONResponse{Body: s.toGitSource(g)}, nil
}

// SuspendGitSource handles POST /api/v1/admin/git-sources/{name}/suspend.
func (s *Handlers) SuspendGitSource(ctx context.Context, req oapi.SuspendGitSourceRequestObject) (oapi.SuspendGitSourceResponseObject, error) {
	ctx, r := request.Of(ctx)
	h, err := s.ReadHold(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	g, err := s.Changes.SuspendSource(ctx, s.keepSource(r, http.StatusOK), req.Name, h.Reason, h.Until)
	if err != nil {
		return nil, err
	}
	return oapi.SuspendGitSource200JSONResponse{Body: s.toGitSource(g)}, nil
}

// ResumeGitSource handles POST /api/v1/admin/git-sources/{name}/resume.
func (s *Handlers) ResumeGitSource(ctx context.Context, req oapi.ResumeGitSourceRequestObject) (oapi.ResumeGitSourceResponseObject, error) {
	ctx, r := request.Of(ctx)
	g, err := s.Changes.ResumeSource(ctx, s.keepSource(r, http.StatusOK), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.ResumeGitSource200JSONResponse{Body: s.toGitSource(g)}, nil
}

// ReceiveGitHook handles POST /api/v1/git/webhook/{source}. A failed signature is charged to the address of
// the sender, like a failed token.
func (s *Handlers) ReceiveGitHook(ctx context.Context, req oapi.ReceiveGitHookRequestObject) (oapi.ReceiveGitHookResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	err = s.Webhooks.Receive(ctx, req.Source, c.Request.Header, r.Body)
	if errs.CodeOf(err) == errs.SignatureInvalid {
		if e := s.Chain.Charge(c, request.ClassAnonymous, identity.Caller{}); e != nil { //nolint:contextcheck // it takes that of the request
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	return oapi.ReceiveGitHook202JSONResponse{Received: true}, nil
}

func (s *Handlers) keepSource(r *request.Call, status int) identity.Change[revision.SourceState] {
	return response.Change(r, func(g revision.SourceState) identity.Reply { return response.Reply(status, s.toGitSource(g), "", "") })
}

// toGitSource encodes a source without its secrets.
func (s *Handlers) toGitSource(g revision.SourceState) oapi.GitSource {
	var settings desired.GitSource
	_ = json.Unmarshal(g.Settings, &settings) // as an older release wrote them: the rest still shows
	now := s.Clock.Now()
	shown := oapi.GitSource{
		Name: g.Name, Urn: s.Naming.Name("", "", "git-source", g.Name).String(), CreatedAt: g.CreatedAt.UTC(), UpdatedAt: g.UpdatedAt.UTC(), Repository: g.Repository, Ref: g.Ref, Dirs: response.OrEmpty(g.Dirs), DeclaredBy: oapi.GitSourceDeclaredBy(g.DeclaredBy),
		Verify: oapi.VerifyInfo{Required: settings.Verify.Required, Signers: len(settings.Verify.OpenPGP) + len(settings.Verify.SSH)},
		Head:   response.OrNil(g.Head), AppliedCommit: response.OrNil(g.Applied.Commit), Revision: response.OrNil(g.Applied.Revision),
		CheckedAt: response.UTC(g.CheckedAt), FetchedAt: response.UTC(g.FetchedAt), Suspended: toSuspension(g.Suspended), GoneAt: response.UTC(g.GoneAt),
		Conditions: shownConditions(g.Conditions(now)), Version: g.Version,
	}
	if f := settings.Forge; f != nil {
		shown.Forge = &oapi.ForgeInfo{Kind: oapi.ForgeInfoKind(f.Kind), Project: f.Project, Url: f.URL}
	}
	return shown
}

func toSuspension(h *desired.Suspension) *oapi.Suspension {
	if h == nil {
		return nil
	}
	return &oapi.Suspension{By: h.By, Reason: h.Reason, SuspendedAt: h.At.UTC(), Until: response.UTC(h.Until)}
}
