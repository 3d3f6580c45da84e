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

// ListProjects handles GET /api/v1/projects.
func (s *Handlers) ListProjects(ctx context.Context, req oapi.ListProjectsRequestObject) (oapi.ListProjectsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]identity.Project, error) {
		return s.Identity.ProjectPage(ctx, r.Caller, request.Or(req.Params.Q, ""), after, n)
	}, func(p identity.Project) string { return p.Name }, s.toProject)
	if err != nil {
		return nil, err
	}
	return oapi.ListProjects200JSONResponse{
		Body:    oapi.ProjectList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListProjects200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateProject handles POST /api/v1/projects.
func (s *Handlers) CreateProject(ctx context.Context, req oapi.CreateProjectRequestObject) (oapi.CreateProjectResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := s.Identity.CreateProject(ctx, response.Change(r, func(p identity.Project) identity.Reply {
		return response.Reply(http.StatusCreated, s.toProject(p), projectAt(p), request.ETag(p.Version))
	}), req.Body.Name, request.Or(req.Body.Description, ""))
	if err != nil {
		return nil, err
	}
	return oapi.CreateProject201JSONResponse{
		Body:    s.toProject(p),
		Headers: oapi.CreateProject201ResponseHeaders{Location: projectAt(p), ETag: request.ETag(p.Version)},
	}, nil
}

// GetProject handles GET /api/v1/projects/{project_id}.
func (s *Handlers) GetProject(ctx context.Context, req oapi.GetProjectRequestObject) (oapi.GetProjectResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := s.Identity.ProjectByID(ctx, r.Caller, ids.From[ids.Project](req.ProjectId))
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(p.Version)) {
		return oapi.GetProject304Response{Headers: oapi.GetProject304ResponseHeaders{ETag: request.ETag(p.Version)}}, nil
	}
	return oapi.GetProject200JSONResponse{Body: s.toProject(p), Headers: oapi.GetProject200ResponseHeaders{ETag: request.ETag(p.Version)}}, nil
}

// UpdateProject handles PATCH /api/v1/projects/{project_id}.
func (s *Handlers) UpdateProject(ctx context.Context, req oapi.UpdateProjectRequestObject) (oapi.UpdateProjectResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	p, err := s.Identity.UpdateProject(ctx, response.Change(r, func(p identity.Project) identity.Reply {
		return response.Reply(http.StatusOK, s.toProject(p), "", request.ETag(p.Version))
	}), ids.From[ids.Project](req.ProjectId), version, identity.ProjectPatch{Name: req.Body.Name, Description: req.Body.Description})
	if err != nil {
		return nil, err
	}
	return oapi.UpdateProject200JSONResponse{Body: s.toProject(p), Headers: oapi.UpdateProject200ResponseHeaders{ETag: request.ETag(p.Version)}}, nil
}

// DeleteProject handles DELETE /api/v1/projects/{project_id}. Package allocation deletes the project,
// because it knows whether the project has allocations.
func (s *Handlers) DeleteProject(ctx context.Context, req oapi.DeleteProjectRequestObject) (oapi.DeleteProjectResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Allocations.CloseProject(ctx, response.Change(r, nothing), ids.From[ids.Project](req.ProjectId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteProject204Response{}, nil
}

// ListProjectMembers handles GET /api/v1/projects/{project_id}/members.
func (s *Handlers) ListProjectMembers(ctx context.Context, req oapi.ListProjectMembersRequestObject) (oapi.ListProjectMembersResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.Member, error) {
		return s.Identity.ProjectMembers(ctx, r.Caller, ids.From[ids.Project](req.ProjectId), after, n)
	}, memberID, toMember)
	if err != nil {
		return nil, err
	}
	return oapi.ListProjectMembers200JSONResponse{
		Body:    oapi.MemberList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListProjectMembers200ResponseHeaders{Link: l.Link},
	}, nil
}

// PutProjectMember handles PUT /api/v1/projects/{project_id}/members/{user_id}.
func (s *Handlers) PutProjectMember(ctx context.Context, req oapi.PutProjectMemberRequestObject) (oapi.PutProjectMemberResponseObject, error) {
	ctx, r := request.Of(ctx)
	m, err := s.Identity.PutProjectMember(ctx, response.Change(r, memberReply), ids.From[ids.Project](req.ProjectId), ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PutProjectMember200JSONResponse{Body: toMember(m)}, nil
}

// DeleteProjectMember handles DELETE /api/v1/projects/{project_id}/members/{user_id}.
func (s *Handlers) DeleteProjectMember(ctx context.Context, req oapi.DeleteProjectMemberRequestObject) (oapi.DeleteProjectMemberResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Identity.RemoveProjectMember(ctx, response.Change(r, nothing), ids.From[ids.Project](req.ProjectId), ids.From[ids.User](req.UserId)); err != nil {
		return nil, err
	}
	return oapi.DeleteProjectMember204Response{}, nil
}

func projectAt(p identity.Project) string { return "/api/v1/projects/" + p.ID.String() }

func (s *Handlers) toProject(p identity.Project) oapi.Project {
	id := p.ID.String()
	return oapi.Project{
		Id: p.ID.UUID, Urn: s.Naming.Name(p.Tenant.String(), id, "project", id).String(), Name: p.Name, Description: p.Description,
		Role: p.Role, Version: p.Version, CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}
