package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// GetTenant handles GET /api/v1/tenant.
func (s *Server) GetTenant(ctx context.Context, req oapi.GetTenantRequestObject) (oapi.GetTenantResponseObject, error) {
	ctx, r := of(ctx)
	t, err := s.Identity.Tenant(ctx, r.caller)
	if err != nil {
		return nil, err
	}
	if notModified(req.Params.IfNoneMatch, tagOf(t.Version)) {
		return oapi.GetTenant304Response{Headers: oapi.GetTenant304ResponseHeaders{ETag: tagOf(t.Version)}}, nil
	}
	return oapi.GetTenant200JSONResponse{Body: s.toTenant(t), Headers: oapi.GetTenant200ResponseHeaders{ETag: tagOf(t.Version)}}, nil
}

// UpdateTenant handles PATCH /api/v1/tenant.
func (s *Server) UpdateTenant(ctx context.Context, req oapi.UpdateTenantRequestObject) (oapi.UpdateTenantResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	t, err := s.Identity.UpdateTenant(ctx, keep(r, s.tenantReply(http.StatusOK)), version, req.Body.Name)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateTenant200JSONResponse{Body: s.toTenant(t), Headers: oapi.UpdateTenant200ResponseHeaders{ETag: tagOf(t.Version)}}, nil
}

// ListTenantMembers handles GET /api/v1/tenant/members.
func (s *Server) ListTenantMembers(ctx context.Context, req oapi.ListTenantMembersRequestObject) (oapi.ListTenantMembersResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.Member, error) {
		return s.Identity.TenantMembers(ctx, r.caller, after, n)
	}, memberID, toMember)
	if err != nil {
		return nil, err
	}
	return oapi.ListTenantMembers200JSONResponse{
		Body:    oapi.MemberList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListTenantMembers200ResponseHeaders{Link: l.link},
	}, nil
}

// PutTenantMember handles PUT /api/v1/tenant/members/{user_id}.
func (s *Server) PutTenantMember(ctx context.Context, req oapi.PutTenantMemberRequestObject) (oapi.PutTenantMemberResponseObject, error) {
	ctx, r := of(ctx)
	m, err := s.Identity.PutTenantMember(ctx, keep(r, memberReply), ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PutTenantMember200JSONResponse{Body: toMember(m)}, nil
}

// DeleteTenantMember handles DELETE /api/v1/tenant/members/{user_id}.
func (s *Server) DeleteTenantMember(ctx context.Context, req oapi.DeleteTenantMemberRequestObject) (oapi.DeleteTenantMemberResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.RemoveTenantMember(ctx, keep(r, nothing), ids.From[ids.User](req.UserId)); err != nil {
		return nil, err
	}
	return oapi.DeleteTenantMember204Response{}, nil
}

// ListInvitations handles GET /api/v1/tenant/invitations.
func (s *Server) ListInvitations(ctx context.Context, req oapi.ListInvitationsRequestObject) (oapi.ListInvitationsResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.Invitation, n int) ([]identity.Invitation, error) {
		return s.Identity.Invitations(ctx, r.caller, after, n)
	}, func(i identity.Invitation) ids.Invitation { return i.ID }, toInvitation)
	if err != nil {
		return nil, err
	}
	return oapi.ListInvitations200JSONResponse{
		Body:    oapi.InvitationList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListInvitations200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateInvitation handles POST /api/v1/tenant/invitations.
func (s *Server) CreateInvitation(ctx context.Context, req oapi.CreateInvitationRequestObject) (oapi.CreateInvitationResponseObject, error) {
	ctx, r := of(ctx)
	i, err := s.Identity.Invite(ctx, keep(r, func(i identity.Invitation) identity.Reply {
		return reply(http.StatusCreated, toInvitation(i), invitationAt(i), "")
	}), req.Body.Email, string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.CreateInvitation201JSONResponse{Body: toInvitation(i), Headers: oapi.CreateInvitation201ResponseHeaders{Location: invitationAt(i)}}, nil
}

// DeleteInvitation handles DELETE /api/v1/tenant/invitations/{id}.
func (s *Server) DeleteInvitation(ctx context.Context, req oapi.DeleteInvitationRequestObject) (oapi.DeleteInvitationResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.RevokeInvitation(ctx, keep(r, nothing), ids.From[ids.Invitation](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteInvitation204Response{}, nil
}

// nothing is how an answer without a body is kept.
func nothing(struct{}) identity.Reply { return identity.Reply{Status: http.StatusNoContent} }

func memberReply(m identity.Member) identity.Reply { return reply(http.StatusOK, toMember(m), "", "") }

func (s *Server) tenantReply(status int) func(identity.Tenant) identity.Reply {
	return func(t identity.Tenant) identity.Reply {
		return reply(status, s.toTenant(t), tenantAt(status, t), tagOf(t.Version))
	}
}

// tenantAt is where a new tenant is; one that was there needs no telling.
func tenantAt(status int, t identity.Tenant) string {
	if status != http.StatusCreated {
		return ""
	}
	return "/api/v1/admin/tenants/" + t.ID.String()
}

func invitationAt(i identity.Invitation) string {
	return "/api/v1/tenant/invitations/" + i.ID.String()
}

func memberID(m identity.Member) ids.User { return m.User }

func toMember(m identity.Member) oapi.Member {
	return oapi.Member{UserId: m.User.UUID, Email: m.Email, Name: m.Name, Role: m.Role}
}

func toInvitation(i identity.Invitation) oapi.Invitation {
	return oapi.Invitation{Id: i.ID.UUID, Email: i.Email, Role: oapi.TenantRole(i.Role), CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC()}
}

func (s *Server) toTenant(t identity.Tenant) oapi.Tenant {
	id := t.ID.String()
	return oapi.Tenant{
		Id: t.ID.UUID, Urn: s.Naming.Name(id, "", "tenant", id).String(), Name: t.Name, Currency: t.Currency,
		Version: t.Version, CreatedAt: t.CreatedAt.UTC(),
	}
}
