package view

import (
	"context"
	"net/url"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// GetAccessMe handles GET /api/v3/access/me.
func (s *Handlers) GetAccessMe(ctx context.Context, req oapi.GetAccessMeRequestObject) (oapi.GetAccessMeResponseObject, error) {
	m, shown := s.begin(ctx), oapi.AccessMe{}
	section(m, &shown.Me, "getMe", nil, getMe)
	section(m, &shown.Tenant, "getTenant", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetTenant(ctx, oapi.GetTenantRequestObject{})
	})
	section(m, &shown.Projects, "listProjects", nil, listProjects)
	section(m, &shown.Invitations, "listOwnInvitations", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListOwnInvitations(ctx, oapi.ListOwnInvitationsRequestObject{})
	})
	section(m, &shown.SshKeys, "listSshKeys", nil, listSSHKeys)
	section(m, &shown.ApiKeys, "listApiKeys", nil, listAPIKeys)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetAccessProject handles GET /api/v3/access/projects/{project_id}.
func (s *Handlers) GetAccessProject(ctx context.Context, req oapi.GetAccessProjectRequestObject) (oapi.GetAccessProjectResponseObject, error) {
	m, shown := s.begin(ctx), oapi.AccessProject{}
	primary(m, &shown.Project, "getProject", func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetProject(ctx, oapi.GetProjectRequestObject{ProjectId: req.ProjectId})
	})
	section(m, &shown.Members, "listProjectMembers", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListProjectMembers(ctx, oapi.ListProjectMembersRequestObject{ProjectId: req.ProjectId})
	})
	section(m, &shown.ServiceAccounts, "listServiceAccounts", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListServiceAccounts(ctx, oapi.ListServiceAccountsRequestObject{ProjectId: req.ProjectId})
	})
	section(m, &shown.Usage, "getUsageSummary", url.Values{"by": {string(oapi.GetUsageSummaryParamsByUser)}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetUsageSummary(ctx, oapi.GetUsageSummaryRequestObject{Params: oapi.GetUsageSummaryParams{By: new(oapi.GetUsageSummaryParamsByUser), XProjectID: new(req.ProjectId.String())}})
	})
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetAccessSessions handles GET /api/v3/access/sessions.
func (s *Handlers) GetAccessSessions(ctx context.Context, req oapi.GetAccessSessionsRequestObject) (oapi.GetAccessSessionsResponseObject, error) {
	m, shown := s.begin(ctx), oapi.AccessSessions{}
	primary(m, &shown.Sessions, "listSessions", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListSessions(ctx, oapi.ListSessionsRequestObject{Params: oapi.ListSessionsParams{Limit: req.Params.Limit, Cursor: req.Params.Cursor}})
	})
	section(m, &shown.ApiKeys, "listApiKeys", nil, listAPIKeys)
	section(m, &shown.All, "listAllSessions", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAllSessions(ctx, oapi.ListAllSessionsRequestObject{})
	})
	return m.end(&shown, req.Params.IfNoneMatch)
}
