package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// GetMe handles GET /api/v1/users/me.
func (s *Server) GetMe(ctx context.Context, _ oapi.GetMeRequestObject) (oapi.GetMeResponseObject, error) {
	ctx, r := of(ctx)
	c := r.caller
	me := oapi.GetMe200JSONResponse{ActorType: oapi.MeActorTypeUser}
	if c.ServiceAccount != (ids.ServiceAccount{}) {
		me.ActorType = oapi.MeActorTypeServiceAccount
		me.ServiceAccount = &oapi.Membership{Id: c.ServiceAccount.UUID, Name: c.Name}
	} else {
		me.User = &oapi.Person{Id: c.User.UUID, Email: c.Email, Name: c.Name, Role: oapi.PersonRole(c.Role)}
	}
	if c.Limited {
		scopes := scopesOf(c.Scopes.Names())
		me.Scopes = &scopes
	}
	if c.Tenant != (ids.Tenant{}) {
		me.Tenant = &oapi.Membership{Id: c.Tenant.UUID, Name: c.TenantName, Role: c.TenantRole}
	}
	if c.Project != (ids.Project{}) {
		projects, err := s.Identity.Projects(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, p := range projects {
			if p.ID == c.Project {
				me.Project = &oapi.Membership{Id: p.ID.UUID, Name: p.Name, Role: c.ProjectRole}
			}
		}
	}
	return me, nil
}

func scopesOf(names []string) []oapi.Scope {
	scopes := make([]oapi.Scope, len(names))
	for i, n := range names {
		scopes[i] = oapi.Scope(n)
	}
	return scopes
}
