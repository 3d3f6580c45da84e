package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListGitSources handles GET /api/v1/admin/git-sources.
func (s *Server) ListGitSources(ctx context.Context, req oapi.ListGitSourcesRequestObject) (oapi.ListGitSourcesResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]revision.SourceState, error) {
		return s.Desired.Sources(ctx, after, n)
	}, func(g revision.SourceState) string { return g.Name }, s.toGitSource)
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
	g, err := s.Desired.SourceByName(ctx, s.DB, req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.GetGitSource200JSONResponse{Body: s.toGitSource(g), Headers: oapi.GetGitSource200ResponseHeaders{ETag: tagOf(g.Version)}}, nil
}

// SyncGitSource handles POST /api/v1/admin/git-sources/{name}/sync.
func (s *Server) SyncGitSource(ctx context.Context, req oapi.SyncGitSourceRequestObject) (oapi.SyncGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	g, err := s.Changes.AskSource(ctx, s.keepSource(r, http.StatusAccepted), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.SyncGitSource202JSONResponse{Body: s.toGitSource(g)}, nil
}

// SuspendGitSource handles POST /api/v1/admin/git-sources/{name}/suspend.
func (s *Server) SuspendGitSource(ctx context.Context, req oapi.SuspendGitSourceRequestObject) (oapi.SuspendGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	h, err := s.holdOf(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	g, err := s.Changes.SuspendSource(ctx, s.keepSource(r, http.StatusOK), req.Name, h.reason, h.until)
	if err != nil {
		return nil, err
	}
	return oapi.SuspendGitSource200JSONResponse{Body: s.toGitSource(g)}, nil
}

// ResumeGitSource handles POST /api/v1/admin/git-sources/{name}/resume.
func (s *Server) ResumeGitSource(ctx context.Context, req oapi.ResumeGitSourceRequestObject) (oapi.ResumeGitSourceResponseObject, error) {
	ctx, r := of(ctx)
	g, err := s.Changes.ResumeSource(ctx, s.keepSource(r, http.StatusOK), req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.ResumeGitSource200JSONResponse{Body: s.toGitSource(g)}, nil
}

// ReceiveGitHook handles POST /api/v1/git/webhook/{source}. Whoever sends what is
// not signed is slowed down, as whoever guesses tokens is; so is who guesses names.
func (s *Server) ReceiveGitHook(ctx context.Context, req oapi.ReceiveGitHookRequestObject) (oapi.ReceiveGitHookResponseObject, error) {
	c, err := request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := of(ctx)
	err = s.Hook(ctx, req.Source, c.Request.Header, r.body)
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

func (s *Server) keepSource(r *call, status int) identity.Change[revision.SourceState] {
	return keep(r, func(g revision.SourceState) identity.Reply { return reply(status, s.toGitSource(g), "", "") })
}

// toGitSource shows a source without what it is read with.
func (s *Server) toGitSource(g revision.SourceState) oapi.GitSource {
	var settings desired.GitSource
	_ = json.Unmarshal(g.Settings, &settings) // as an older release wrote them: the rest still shows
	now := s.Clock.Now()
	shown := oapi.GitSource{
		Name: g.Name, Repository: g.Repository, Ref: g.Ref, Dirs: orEmpty(g.Dirs), DeclaredBy: oapi.GitSourceDeclaredBy(g.DeclaredBy),
		Verify: oapi.VerifyInfo{Required: settings.Verify.Required, Signers: len(settings.Verify.OpenPGP) + len(settings.Verify.SSH)},
		Head:   filled(g.Head), AppliedCommit: filled(g.Applied.Commit), Revision: filled(g.Applied.Revision),
		CheckedAt: utc(g.CheckedAt), FetchedAt: utc(g.FetchedAt), Suspended: toSuspension(g.Suspended), GoneAt: utc(g.GoneAt),
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
	return &oapi.Suspension{By: h.By, Reason: h.Reason, SuspendedAt: h.At.UTC(), Until: utc(h.Until)}
}
