package people

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// GetTenant handles GET /api/v1/tenant.
func (s *Handlers) GetTenant(ctx context.Context, req oapi.GetTenantRequestObject) (oapi.GetTenantResponseObject, error) {
	ctx, r := request.Of(ctx)
	t, err := s.Identity.Tenant(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(t.Version)) {
		return oapi.GetTenant304Response{Headers: oapi.GetTenant304ResponseHeaders{ETag: request.ETag(t.Version)}}, nil
	}
	return oapi.GetTenant200JSONResponse{Body: s.toTenant(t), Headers: oapi.GetTenant200ResponseHeaders{ETag: request.ETag(t.Version)}}, nil
}

// UpdateTenant handles PATCH /api/v1/tenant.
func (s *Handlers) UpdateTenant(ctx context.Context, req oapi.UpdateTenantRequestObject) (oapi.UpdateTenantResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	t, err := s.Identity.UpdateTenant(ctx, response.Change(r, s.tenantReply(http.StatusOK)), version, req.Body.Name)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateTenant200JSONResponse{Body: s.toTenant(t), Headers: oapi.UpdateTenant200ResponseHeaders{ETag: request.ETag(t.Version)}}, nil
}

// ListTenantMembers handles GET /api/v1/tenant/members.
func (s *Handlers) ListTenantMembers(ctx context.Context, req oapi.ListTenantMembersRequestObject) (oapi.ListTenantMembersResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.Member, error) {
		return s.Identity.TenantMembers(ctx, r.Caller, after, n)
	}, memberID, toMember)
	if err != nil {
		return nil, err
	}
	return oapi.ListTenantMembers200JSONResponse{
		Body:    oapi.MemberList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListTenantMembers200ResponseHeaders{Link: l.Link},
	}, nil
}

// PutTenantMember handles PUT /api/v1/tenant/members/{user_id}.
func (s *Handlers) PutTenantMember(ctx context.Context, req oapi.PutTenantMemberRequestObject) (oapi.PutTenantMemberResponseObject, error) {
	ctx, r := request.Of(ctx)
	m, err := s.Identity.PutTenantMember(ctx, response.Change(r, memberReply), ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PutTenantMember200JSONResponse{Body: toMember(m)}, nil
}

// DeleteTenantMember handles DELETE /api/v1/tenant/members/{user_id}.
func (s *Handlers) DeleteTenantMember(ctx context.Context, req oapi.DeleteTenantMemberRequestObject) (oapi.DeleteTenantMemberResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.RemoveTenantMember(ctx, response.Change(r, nothing), ids.From[ids.User](req.UserId)); err != nil {
		return nil, err
	}
	return oapi.DeleteTenantMember204Response{}, nil
}

// ListInvitations handles GET /api/v1/tenant/invitations.
func (s *Handlers) ListInvitations(ctx context.Context, req oapi.ListInvitationsRequestObject) (oapi.ListInvitationsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Invitation, n int) ([]identity.Invitation, error) {
		return s.Identity.Invitations(ctx, r.Caller, after, n)
	}, func(i identity.Invitation) ids.Invitation { return i.ID }, s.invitationOf(r.Caller.Tenant))
	if err != nil {
		return nil, err
	}
	return oapi.ListInvitations200JSONResponse{
		Body:    oapi.InvitationList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListInvitations200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateInvitation handles POST /api/v1/tenant/invitations.
func (s *Handlers) CreateInvitation(ctx context.Context, req oapi.CreateInvitationRequestObject) (oapi.CreateInvitationResponseObject, error) {
	ctx, r := request.Of(ctx)
	i, err := s.Identity.Invite(ctx, response.Change(r, func(i identity.Invitation) identity.Reply {
		return response.Reply(http.StatusCreated, s.invitationOf(r.Caller.Tenant)(i), invitationAt(i), "")
	}), req.Body.Email, string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.CreateInvitation201JSONResponse{Body: s.invitationOf(r.Caller.Tenant)(i), Headers: oapi.CreateInvitation201ResponseHeaders{Location: invitationAt(i)}}, nil
}

// DeleteInvitation handles DELETE /api/v1/tenant/invitations/{id}.
func (s *Handlers) DeleteInvitation(ctx context.Context, req oapi.DeleteInvitationRequestObject) (oapi.DeleteInvitationResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.RevokeInvitation(ctx, response.Change(r, nothing), ids.From[ids.Invitation](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteInvitation204Response{}, nil
}

// nothing returns a stored response without a body.
func nothing(struct{}) identity.Reply { return identity.Reply{Status: http.StatusNoContent} }

func memberReply(m identity.Member) identity.Reply {
	return response.Reply(http.StatusOK, toMember(m), "", "")
}

func (s *Handlers) tenantReply(status int) func(identity.Tenant) identity.Reply {
	return func(t identity.Tenant) identity.Reply {
		return response.Reply(status, s.toTenant(t), tenantAt(status, t), request.ETag(t.Version))
	}
}

// tenantAt sets the address of a new tenant. An existing one needs none.
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

func (s *Handlers) invitationOf(tenant ids.Tenant) func(identity.Invitation) oapi.Invitation {
	return func(i identity.Invitation) oapi.Invitation {
		return oapi.Invitation{
			Id: i.ID.UUID, Urn: s.invitationURN(tenant, i.ID), Email: i.Email, Role: oapi.TenantRole(i.Role),
			CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
		}
	}
}

func (s *Handlers) toTenant(t identity.Tenant) oapi.Tenant {
	return oapi.Tenant{
		Id: t.ID.UUID, Urn: s.tenantURN(t.ID), Name: t.Name, Currency: t.Currency,
		Version: t.Version, CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
	}
}
