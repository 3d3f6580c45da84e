package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListGitSources handles GET /api/v1/admin/git-sources.
func (s *Server) ListGitSources(ctx context.Context, req oapi.ListGitSourcesRequestObject) (oapi.ListGitSourcesResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]GitSource, error) {
		return s.Sources.Sources(ctx, after, n)
	}, func(g GitSource) string { return g.Name }, toGitSource)
	if err != nil {
		return nil, err
	}
	return oapi.ListGitSources200JSONResponse{
		Body:    oapi.GitSourceList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListGitSources200ResponseHeaders{Link: l.link},
	}, nil
}

// GetGitSource handles GET /api/v1/admin/git-sources/{name}.
func (s *Server) GetGitSource(ctx context.Context, req oapi.GetGitSourceRequestObject) (oapi.GetGitSourceResponseObject, error) {
	ctx, _ = of(ctx)
	g, err := s.Sources.Source(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.GetGitSource200JSONResponse{Body: toGitSource(g), Headers: oapi.GetGitSource200ResponseHeaders{ETag: tagOf(g.Version)}}, nil
}

// SyncGitSource handles POST /api/v1/admin/git-sources/{name}/sync.
func (s *Server) SyncGitSource(ctx context.Context, req oapi.SyncGitSourceRequestObject) (oapi.SyncGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	g, err := s.Sources.SyncSource(ctx, keepSource(r, http.StatusAccepted), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.SyncGitSource202JSONResponse{Body: toGitSource(g)}, nil
}

// SuspendGitSource handles POST /api/v1/admin/git-sources/{name}/suspend.
func (s *Server) SuspendGitSource(ctx context.Context, req oapi.SuspendGitSourceRequestObject) (oapi.SuspendGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	h, err := s.holdOf(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	g, err := s.Sources.SuspendSource(ctx, keepSource(r, http.StatusOK), req.Name, h)
	if err != nil {
		return nil, err
	}
	return oapi.SuspendGitSource200JSONResponse{Body: toGitSource(g)}, nil
}

// ResumeGitSource handles POST /api/v1/admin/git-sources/{name}/resume.
func (s *Server) ResumeGitSource(ctx context.Context, req oapi.ResumeGitSourceRequestObject) (oapi.ResumeGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	g, err := s.Sources.ResumeSource(ctx, keepSource(r, http.StatusOK), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.ResumeGitSource200JSONResponse{Body: toGitSource(g)}, nil
}

// ReceiveGitHook handles POST /api/v1/git/webhook/{source}. Whoever sends what is
// not signed is slowed down, as whoever guesses tokens is; so is who guesses names.
func (s *Server) ReceiveGitHook(ctx context.Context, req oapi.ReceiveGitHookRequestObject) (oapi.ReceiveGitHookResponseObject, error) {
	c, err := request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := of(ctx)
	err = s.Sources.Hook(ctx, req.Source, c.Request.Header, r.body)
	if code := errs.CodeOf(err); code == errs.SignatureInvalid || code == errs.NotFound {
		if e := s.charge(c, ClassAnonymous, identity.Caller{}); e != nil { //nolint:contextcheck // it takes that of the request
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	return oapi.ReceiveGitHook202JSONResponse{Received: true}, nil
}

func keepSource(r *call, status int) identity.Change[GitSource] {
	return keep(r, func(g GitSource) identity.Reply { return reply(status, toGitSource(g), "", "") })
}

func toGitSource(g GitSource) oapi.GitSource {
	shown := oapi.GitSource{
		Name: g.Name, Repository: g.Repository, Ref: g.Ref, Dirs: orEmpty(g.Dirs), DeclaredBy: oapi.GitSourceDeclaredBy(g.DeclaredBy),
		Verify: oapi.VerifyInfo{Required: g.Signed, Signers: g.Signers}, Head: filled(g.Head), AppliedCommit: filled(g.Applied),
		Revision: filled(g.Revision), CheckedAt: utc(g.CheckedAt), FetchedAt: utc(g.FetchedAt), Suspended: toSuspension(g.Suspended),
		GoneAt: utc(g.GoneAt), Conditions: shownConditions(g.Conditions), Version: g.Version,
	}
	if g.Forge != nil {
		shown.Forge = &oapi.ForgeInfo{Kind: oapi.ForgeInfoKind(g.Forge.Kind), Project: g.Forge.Project, Url: g.Forge.URL}
	}
	return shown
}

func toSuspension(h *Suspension) *oapi.Suspension {
	if h == nil {
		return nil
	}
	return &oapi.Suspension{By: h.By, Reason: h.Reason, At: h.At.UTC(), Until: utc(h.Until)}
}
