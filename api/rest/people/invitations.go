package people

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListOwnInvitations handles GET /api/v1/users/me/invitations.
func (s *Handlers) ListOwnInvitations(ctx context.Context, req oapi.ListOwnInvitationsRequestObject) (oapi.ListOwnInvitationsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Invitation, n int) ([]identity.OwnInvitation, error) {
		return s.Identity.OwnInvitations(ctx, r.Caller, after, n)
	}, func(i identity.OwnInvitation) ids.Invitation { return i.ID }, s.toOwnInvitation)
	if err != nil {
		return nil, err
	}
	return oapi.ListOwnInvitations200JSONResponse{
		Body:    oapi.OwnInvitationList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListOwnInvitations200ResponseHeaders{Link: l.Link},
	}, nil
}

// AcceptInvitation handles POST /api/v1/users/me/invitations/{own_invitation_id}/accept.
func (s *Handlers) AcceptInvitation(ctx context.Context, req oapi.AcceptInvitationRequestObject) (oapi.AcceptInvitationResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.AcceptInvitation(ctx, response.Change(r, nothing), ids.From[ids.Invitation](req.OwnInvitationId)); err != nil {
		return nil, err
	}
	return oapi.AcceptInvitation204Response{}, nil
}

// DeclineInvitation handles POST /api/v1/users/me/invitations/{own_invitation_id}/decline.
func (s *Handlers) DeclineInvitation(ctx context.Context, req oapi.DeclineInvitationRequestObject) (oapi.DeclineInvitationResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.DeclineInvitation(ctx, response.Change(r, nothing), ids.From[ids.Invitation](req.OwnInvitationId)); err != nil {
		return nil, err
	}
	return oapi.DeclineInvitation204Response{}, nil
}

func (s *Handlers) toOwnInvitation(i identity.OwnInvitation) oapi.OwnInvitation {
	return oapi.OwnInvitation{
		Id: i.ID.UUID, Urn: s.invitationURN(i.Tenant, i.ID), Tenant: oapi.Membership{Id: i.Tenant.UUID, Urn: s.tenantURN(i.Tenant), Name: i.TenantName, Role: i.Role},
		CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
	}
}

func (s *Handlers) invitationURN(tenant ids.Tenant, id ids.Invitation) string {
	return s.Naming.Name(tenant.String(), "", "invitation", id.String()).String()
}
