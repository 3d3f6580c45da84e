package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListProjects handles GET /api/v1/projects.
func (s *Server) ListProjects(ctx context.Context, req oapi.ListProjectsRequestObject) (oapi.ListProjectsResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]identity.Project, error) {
		return s.Identity.ProjectPage(ctx, r.caller, after, n)
	}, func(p identity.Project) string { return p.Name }, s.toProject)
	if err != nil {
		return nil, err
	}
	return oapi.ListProjects200JSONResponse{
		Body:    oapi.ProjectList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListProjects200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateProject handles POST /api/v1/projects.
func (s *Server) CreateProject(ctx context.Context, req oapi.CreateProjectRequestObject) (oapi.CreateProjectResponseObject, error) {
	ctx, r := of(ctx)
	p, err := s.Identity.CreateProject(ctx, keep(r, func(p identity.Project) identity.Reply {
		return reply(http.StatusCreated, s.toProject(p), projectAt(p), tagOf(p.Version))
	}), req.Body.Name, or(req.Body.Description, ""))
	if err != nil {
		return nil, err
	}
	return oapi.CreateProject201JSONResponse{
		Body:    s.toProject(p),
		Headers: oapi.CreateProject201ResponseHeaders{Location: projectAt(p), ETag: tagOf(p.Version)},
	}, nil
}

// GetProject handles GET /api/v1/projects/{project_id}.
func (s *Server) GetProject(ctx context.Context, req oapi.GetProjectRequestObject) (oapi.GetProjectResponseObject, error) {
	ctx, r := of(ctx)
	p, err := s.Identity.ProjectByID(ctx, r.caller, ids.From[ids.Project](req.ProjectId))
	if err != nil {
		return nil, err
	}
	if notModified(req.Params.IfNoneMatch, tagOf(p.Version)) {
		return oapi.GetProject304Response{Headers: oapi.GetProject304ResponseHeaders{ETag: tagOf(p.Version)}}, nil
	}
	return oapi.GetProject200JSONResponse{Body: s.toProject(p), Headers: oapi.GetProject200ResponseHeaders{ETag: tagOf(p.Version)}}, nil
}

// UpdateProject handles PATCH /api/v1/projects/{project_id}.
func (s *Server) UpdateProject(ctx context.Context, req oapi.UpdateProjectRequestObject) (oapi.UpdateProjectResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	p, err := s.Identity.UpdateProject(ctx, keep(r, func(p identity.Project) identity.Reply {
		return reply(http.StatusOK, s.toProject(p), "", tagOf(p.Version))
	}), ids.From[ids.Project](req.ProjectId), version, identity.ProjectPatch{Name: req.Body.Name, Description: req.Body.Description})
	if err != nil {
		return nil, err
	}
	return oapi.UpdateProject200JSONResponse{Body: s.toProject(p), Headers: oapi.UpdateProject200ResponseHeaders{ETag: tagOf(p.Version)}}, nil
}

// DeleteProject handles DELETE /api/v1/projects/{project_id}. The room of what
// stands in a project is asked: it alone knows whether anything lives there.
func (s *Server) DeleteProject(ctx context.Context, req oapi.DeleteProjectRequestObject) (oapi.DeleteProjectResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Allocations.CloseProject(ctx, keep(r, nothing), ids.From[ids.Project](req.ProjectId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteProject204Response{}, nil
}

// ListProjectMembers handles GET /api/v1/projects/{project_id}/members.
func (s *Server) ListProjectMembers(ctx context.Context, req oapi.ListProjectMembersRequestObject) (oapi.ListProjectMembersResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.Member, error) {
		return s.Identity.ProjectMembers(ctx, r.caller, ids.From[ids.Project](req.ProjectId), after, n)
	}, memberID, toMember)
	if err != nil {
		return nil, err
	}
	return oapi.ListProjectMembers200JSONResponse{
		Body:    oapi.MemberList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListProjectMembers200ResponseHeaders{Link: l.link},
	}, nil
}

// PutProjectMember handles PUT /api/v1/projects/{project_id}/members/{user_id}.
func (s *Server) PutProjectMember(ctx context.Context, req oapi.PutProjectMemberRequestObject) (oapi.PutProjectMemberResponseObject, error) {
	ctx, r := of(ctx)
	m, err := s.Identity.PutProjectMember(ctx, keep(r, memberReply), ids.From[ids.Project](req.ProjectId), ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PutProjectMember200JSONResponse{Body: toMember(m)}, nil
}

// DeleteProjectMember handles DELETE /api/v1/projects/{project_id}/members/{user_id}.
func (s *Server) DeleteProjectMember(ctx context.Context, req oapi.DeleteProjectMemberRequestObject) (oapi.DeleteProjectMemberResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.RemoveProjectMember(ctx, keep(r, nothing), ids.From[ids.Project](req.ProjectId), ids.From[ids.User](req.UserId)); err != nil {
		return nil, err
	}
	return oapi.DeleteProjectMember204Response{}, nil
}

func projectAt(p identity.Project) string { return "/api/v1/projects/" + p.ID.String() }

func (s *Server) toProject(p identity.Project) oapi.Project {
	id := p.ID.String()
	return oapi.Project{
		Id: p.ID.UUID, Urn: s.Naming.Name(p.Tenant.String(), id, "project", id).String(), Name: p.Name, Description: p.Description,
		Role: p.Role, Version: p.Version, CreatedAt: p.CreatedAt.UTC(),
	}
}
