// Package terminal serves the operations of terminal tokens and terminal sessions.
package terminal

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Exports response.Exports
}

// CreateTerminalToken handles POST /api/v1/allocations/{id}/terminal-token.
func (s *Handlers) CreateTerminalToken(ctx context.Context, req oapi.CreateTerminalTokenRequestObject) (oapi.CreateTerminalTokenResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	a, err := s.Allocations.Get(ctx, r.Caller, ids.From[ids.Allocation](req.Id))
	switch {
	case err != nil:
		return nil, err
	case a.Project != r.Caller.Project && !r.OutsideProjects():
		return nil, errs.New(errs.NotFound, "no such allocation")
	}
	at := "/api/v1/allocations/" + a.ID.String()
	t, err := s.Terminals.CreateToken(ctx, response.Change(r, func(t terminal.Token) identity.Reply {
		reply := response.Reply(http.StatusCreated, toToken(t), at, "")
		reply.Secret = true
		return reply
	}), a, terminal.TokenRequest{
		Purpose: terminal.Purpose(req.Body.Purpose), Resumes: request.Or(req.Body.SessionId, uuid.Nil), Origin: c.Request.Header.Get("Origin"),
	})
	if err != nil {
		return nil, err
	}
	return oapi.CreateTerminalToken201JSONResponse{Body: toToken(t), Headers: oapi.CreateTerminalToken201ResponseHeaders{Location: at}}, nil
}

// ListTerminalSessions handles GET /api/v1/terminal-sessions.
func (s *Handlers) ListTerminalSessions(ctx context.Context, req oapi.ListTerminalSessionsRequestObject) (oapi.ListTerminalSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := terminal.Filter{
		Tenant: r.Caller.Tenant, Project: r.Caller.Project, Principal: request.Or(p.PrincipalId, uuid.Nil), Allocation: request.Or(p.AllocationId, uuid.Nil), Status: string(request.Or(p.Status, "")),
	}
	if own := ownOnly(r); own != uuid.Nil {
		if f.Principal != uuid.Nil && f.Principal != own {
			return nil, errs.New(errs.Forbidden, "only an admin of the project can list the sessions of others").At("principal_id")
		}
		f.Principal = own
	}
	l, err := s.page(ctx, r, p.Cursor, p.Limit, f, false)
	if err != nil {
		return nil, err
	}
	return oapi.ListTerminalSessions200JSONResponse{
		Body: oapi.TerminalSessionList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListTerminalSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

// ListAdminTerminalSessions handles GET /api/v1/admin/terminal-sessions.
func (s *Handlers) ListAdminTerminalSessions(ctx context.Context, req oapi.ListAdminTerminalSessionsRequestObject) (oapi.ListAdminTerminalSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := terminal.Filter{
		Tenant: ids.From[ids.Tenant](request.Or(p.Tenant, uuid.Nil)), Principal: request.Or(p.PrincipalId, uuid.Nil), Allocation: request.Or(p.AllocationId, uuid.Nil), Status: string(request.Or(p.Status, "")),
	}
	if p.Node != nil {
		n, _, err := s.Fleet.Node(ctx, *p.Node)
		if err != nil {
			return nil, err
		}
		f.Node = n.ID
	}
	l, err := s.page(ctx, r, p.Cursor, p.Limit, f, true)
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminTerminalSessions200JSONResponse{
		Body: oapi.TerminalSessionList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListAdminTerminalSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) page(ctx context.Context, r *request.Call, cursor *string, limit *int, f terminal.Filter, operator bool) (response.ListPage[oapi.TerminalSession], error) {
	return response.List(s.Cursors, r, cursor, limit, func(after uuid.UUID, n int) ([]terminal.Session, error) {
		f.After, f.Limit = after, n
		return s.Terminals.List(ctx, f)
	}, func(v terminal.Session) uuid.UUID { return v.ID }, func(v terminal.Session) oapi.TerminalSession { return s.toSession(v, operator) })
}

// EndTerminalSession handles DELETE /api/v1/terminal-sessions/{id}.
func (s *Handlers) EndTerminalSession(ctx context.Context, req oapi.EndTerminalSessionRequestObject) (oapi.EndTerminalSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Terminals.RequestEnd(ctx, noContent(r), req.Id, r.Caller.Project, ownOnly(r), terminal.EndedByUser); err != nil {
		return nil, err
	}
	return oapi.EndTerminalSession204Response{}, nil
}

// EndAdminTerminalSession handles DELETE /api/v1/admin/terminal-sessions/{id}.
func (s *Handlers) EndAdminTerminalSession(ctx context.Context, req oapi.EndAdminTerminalSessionRequestObject) (oapi.EndAdminTerminalSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Terminals.RequestEnd(ctx, noContent(r), req.Id, ids.Project{}, uuid.Nil, terminal.EndedByOperator); err != nil {
		return nil, err
	}
	return oapi.EndAdminTerminalSession204Response{}, nil
}

func noContent(r *request.Call) identity.Change[struct{}] {
	return response.Change(r, func(struct{}) identity.Reply { return response.Reply(http.StatusNoContent, nil, "", "") })
}

// ownOnly returns the caller who sees no sessions of others, or no id for an admin of the project or an owner of the tenant.
func ownOnly(r *request.Call) uuid.UUID {
	if r.Platform || r.Caller.ProjectRole == "admin" || r.Caller.TenantRole == "owner" {
		return uuid.Nil
	}
	return r.Caller.Principal()
}

func toToken(t terminal.Token) oapi.TerminalToken {
	return oapi.TerminalToken{Token: t.Token, ExpiresAt: t.ExpiresAt.UTC(), Url: t.URL, Login: t.Login, Via: oapi.TerminalTokenViaRelay}
}

func (s *Handlers) toSession(v terminal.Session, operator bool) oapi.TerminalSession {
	shown := oapi.TerminalSession{
		Id: v.ID, Urn: v.URN(s.Naming), TenantId: v.Tenant.UUID, ProjectId: v.Project.UUID, AllocationId: v.Allocation.UUID, PrincipalId: v.Principal,
		Purpose: oapi.TerminalSessionPurpose(v.Purpose), Status: oapi.TerminalSessionStatusOpen, Address: v.Client.Address, UserAgent: v.Client.UserAgent,
		Connected: v.Connected, ExitStatus: v.ExitStatus, ReceivedBytes: v.Received, SentBytes: v.Sent, HostKey: response.OrNil(v.HostKey), CorrelationId: v.CorrelationID,
		CreatedAt: v.CreatedAt.UTC(), UpdatedAt: v.UpdatedAt.UTC(), EndedAt: response.UTC(v.EndedAt),
	}
	if v.EndedAt != nil {
		reason := oapi.TerminalEndReason(v.EndReason)
		shown.Status, shown.EndReason = oapi.TerminalSessionStatusEnded, &reason
	}
	if operator {
		shown.NodeId = &v.Node.UUID
	}
	return shown
}
