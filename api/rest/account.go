package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// GetMe handles GET /api/v1/users/me.
func (s *Server) GetMe(ctx context.Context, _ oapi.GetMeRequestObject) (oapi.GetMeResponseObject, error) {
	ctx, r := of(ctx)
	c := r.caller
	me := oapi.GetMe200JSONResponse{
		User:   oapi.Person{Id: c.User.UUID, Email: c.Email, Name: c.Name, Role: oapi.PersonRole(c.Role)},
		Tenant: oapi.Membership{Id: c.Tenant.UUID, Name: c.TenantName, Role: c.TenantRole},
	}
	projects, err := s.Identity.Projects(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		if p.ID == c.Project {
			me.Project = &oapi.Membership{Id: p.ID.UUID, Name: p.Name, Role: c.ProjectRole}
		}
	}
	return me, nil
}

// ListProjects handles GET /api/v1/projects.
func (s *Server) ListProjects(ctx context.Context, _ oapi.ListProjectsRequestObject) (oapi.ListProjectsResponseObject, error) {
	ctx, r := of(ctx)
	projects, err := s.Identity.Projects(ctx, r.caller)
	if err != nil {
		return nil, err
	}
	items := []oapi.Membership{}
	for _, p := range projects {
		// The tenant's owners administer every project of it.
		if p.Role == "" && r.caller.TenantRole == "owner" {
			p.Role = "admin"
		}
		if p.Role != "" {
			items = append(items, oapi.Membership{Id: p.ID.UUID, Name: p.Name, Role: p.Role})
		}
	}
	return oapi.ListProjects200JSONResponse{Items: items}, nil
}
