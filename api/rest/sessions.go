package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListSessions handles GET /api/v1/auth/sessions.
func (s *Server) ListSessions(ctx context.Context, req oapi.ListSessionsRequestObject) (oapi.ListSessionsResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.Session, n int) ([]identity.SessionInfo, error) {
		return s.Identity.Sessions(ctx, r.caller, after, n)
	}, sessionID, toSession)
	if err != nil {
		return nil, err
	}
	return oapi.ListSessions200JSONResponse{
		Body:    oapi.SessionList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListSessions200ResponseHeaders{Link: l.link},
	}, nil
}

// EndSession handles DELETE /api/v1/auth/sessions/{id}.
func (s *Server) EndSession(ctx context.Context, req oapi.EndSessionRequestObject) (oapi.EndSessionResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.EndSessionByID(ctx, keep(r, nothing), ids.From[ids.Session](req.Id), false); err != nil {
		return nil, err
	}
	return oapi.EndSession204Response{}, nil
}

// ListAllSessions handles GET /api/v1/admin/sessions.
func (s *Server) ListAllSessions(ctx context.Context, req oapi.ListAllSessionsRequestObject) (oapi.ListAllSessionsResponseObject, error) {
	ctx, r := of(ctx)
	var user ids.User
	if req.Params.UserId != nil {
		user = ids.From[ids.User](*req.Params.UserId)
	}
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.Session, n int) ([]identity.SessionInfo, error) {
		return s.Identity.AllSessions(ctx, user, after, n)
	}, sessionID, toSession)
	if err != nil {
		return nil, err
	}
	return oapi.ListAllSessions200JSONResponse{
		Body:    oapi.SessionList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListAllSessions200ResponseHeaders{Link: l.link},
	}, nil
}

// EndAnySession handles DELETE /api/v1/admin/sessions/{id}.
func (s *Server) EndAnySession(ctx context.Context, req oapi.EndAnySessionRequestObject) (oapi.EndAnySessionResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.EndSessionByID(ctx, keep(r, nothing), ids.From[ids.Session](req.Id), true); err != nil {
		return nil, err
	}
	return oapi.EndAnySession204Response{}, nil
}

func sessionID(i identity.SessionInfo) ids.Session { return i.ID }

func toSession(i identity.SessionInfo) oapi.Session {
	return oapi.Session{
		Id: i.ID.UUID, UserId: i.User.UUID, Kind: oapi.SessionKind(i.Kind), Issuer: i.Issuer, Address: i.Address, UserAgent: i.UserAgent,
		Current: i.Current, CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(), LastUsedAt: utc(i.LastUsedAt),
	}
}
