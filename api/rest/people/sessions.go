package people

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// ListSessions handles GET /api/v1/auth/sessions.
func (s *Handlers) ListSessions(ctx context.Context, req oapi.ListSessionsRequestObject) (oapi.ListSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Session, n int) ([]signin.SessionInfo, error) {
		return s.SignIn.Sessions(ctx, r.Caller, after, n)
	}, sessionID, s.toSession)
	if err != nil {
		return nil, err
	}
	return oapi.ListSessions200JSONResponse{
		Body:    oapi.SessionList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

// EndSession handles DELETE /api/v1/auth/sessions/{id}.
func (s *Handlers) EndSession(ctx context.Context, req oapi.EndSessionRequestObject) (oapi.EndSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.SignIn.EndSessionByID(ctx, response.Change(r, nothing), ids.From[ids.Session](req.Id), false); err != nil {
		return nil, err
	}
	return oapi.EndSession204Response{}, nil
}

// ListAllSessions handles GET /api/v1/admin/sessions.
func (s *Handlers) ListAllSessions(ctx context.Context, req oapi.ListAllSessionsRequestObject) (oapi.ListAllSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	var user ids.User
	if req.Params.UserId != nil {
		user = ids.From[ids.User](*req.Params.UserId)
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Session, n int) ([]signin.SessionInfo, error) {
		return s.SignIn.AllSessions(ctx, user, after, n)
	}, sessionID, s.toSession)
	if err != nil {
		return nil, err
	}
	return oapi.ListAllSessions200JSONResponse{
		Body:    oapi.SessionList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAllSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

// EndAnySession handles DELETE /api/v1/admin/sessions/{id}.
func (s *Handlers) EndAnySession(ctx context.Context, req oapi.EndAnySessionRequestObject) (oapi.EndAnySessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.SignIn.EndSessionByID(ctx, response.Change(r, nothing), ids.From[ids.Session](req.Id), true); err != nil {
		return nil, err
	}
	return oapi.EndAnySession204Response{}, nil
}

func sessionID(i signin.SessionInfo) ids.Session { return i.ID }

func (s *Handlers) toSession(i signin.SessionInfo) oapi.Session {
	return oapi.Session{
		Id: i.ID.UUID, Urn: s.ownURN(identity.Caller{Tenant: i.Tenant}, "session", i.ID.String()), UserId: i.User.UUID, Kind: oapi.SessionKind(i.Kind), Issuer: i.Issuer, Address: i.Address, UserAgent: i.UserAgent,
		Current: i.Current, CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(), LastUsedAt: response.UTC(i.LastUsedAt),
	}
}
