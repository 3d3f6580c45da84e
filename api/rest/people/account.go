package people

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// GetMe handles GET /api/v1/users/me.
func (s *Handlers) GetMe(ctx context.Context, _ oapi.GetMeRequestObject) (oapi.GetMeResponseObject, error) {
	ctx, r := request.Of(ctx)
	c := r.Caller
	me := oapi.GetMe200JSONResponse{ActorType: oapi.MeActorTypeUser}
	if c.ServiceAccount != (ids.ServiceAccount{}) {
		me.ActorType = oapi.MeActorTypeServiceAccount
		me.ServiceAccount = &oapi.Membership{
			Id: c.ServiceAccount.UUID, Urn: s.Naming.Name(c.Tenant.String(), c.Project.String(), "service-account", c.ServiceAccount.String()).String(), Name: c.Name,
		}
	} else {
		user, err := s.Identity.UserByID(ctx, c.User)
		if err != nil {
			return nil, err
		}
		me.User = &oapi.UserSummary{Id: c.User.UUID, Urn: user.URN(s.Naming), Email: c.Email, Name: user.Name, Role: c.Role, Version: &user.Version}
	}
	if c.Limited {
		scopes := response.Scopes(c.Scopes.Names())
		me.Scopes = &scopes
	}
	if c.Tenant != (ids.Tenant{}) {
		me.Tenant = &oapi.Membership{Id: c.Tenant.UUID, Urn: s.tenantURN(c.Tenant), Name: c.TenantName, Role: c.TenantRole}
	}
	if c.Project != (ids.Project{}) {
		p, err := s.Identity.ProjectByID(ctx, c, c.Project)
		if err != nil {
			return nil, err
		}
		me.Project = &oapi.Membership{Id: p.ID.UUID, Urn: s.toProject(p).Urn, Name: p.Name, Role: c.ProjectRole}
	}
	return me, nil
}

// UpdateMe handles PATCH /api/v1/users/me.
func (s *Handlers) UpdateMe(ctx context.Context, req oapi.UpdateMeRequestObject) (oapi.UpdateMeResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	u, err := s.Identity.UpdateMe(ctx, response.Change(r, s.userReply(http.StatusOK)), version, req.Body.Name)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateMe200JSONResponse{Body: s.toUser(u), Headers: oapi.UpdateMe200ResponseHeaders{ETag: request.ETag(u.Version)}}, nil
}
