package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListUsers handles GET /api/v1/admin/users.
func (s *Server) ListUsers(ctx context.Context, req oapi.ListUsersRequestObject) (oapi.ListUsersResponseObject, error) {
	ctx, r := of(ctx)
	f := identity.UserFilter{Text: or(req.Params.Q, ""), Role: string(or(req.Params.Role, ""))}
	if req.Params.Tenant != nil {
		f.Tenant = ids.From[ids.Tenant](*req.Params.Tenant)
	}
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.User, error) {
		f.After, f.Limit = after, n
		return s.Identity.Users(ctx, f)
	}, func(u identity.User) ids.User { return u.ID }, toUser)
	if err != nil {
		return nil, err
	}
	return oapi.ListUsers200JSONResponse{
		Body:    oapi.UserList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListUsers200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateUser handles POST /api/v1/admin/users.
func (s *Server) CreateUser(ctx context.Context, req oapi.CreateUserRequestObject) (oapi.CreateUserResponseObject, error) {
	ctx, r := of(ctx)
	n := identity.NewUser{Email: req.Body.Email, Name: req.Body.Name, Role: string(or(req.Body.Role, "user"))}
	if req.Body.TenantId != nil {
		n.Tenant, n.TenantRole = ids.From[ids.Tenant](*req.Body.TenantId), string(or(req.Body.TenantRole, "member"))
	} else if req.Body.TenantRole != nil {
		return nil, errs.Invalid("tenant_role", "needs a tenant_id")
	}
	u, err := s.Identity.CreateUser(ctx, keep(r, userReply(http.StatusCreated)), n)
	if err != nil {
		return nil, err
	}
	return oapi.CreateUser201JSONResponse{Body: toUser(u), Headers: oapi.CreateUser201ResponseHeaders{Location: userAt(u), ETag: tagOf(u.Version)}}, nil
}

// GetUser handles GET /api/v1/admin/users/{user_id}.
func (s *Server) GetUser(ctx context.Context, req oapi.GetUserRequestObject) (oapi.GetUserResponseObject, error) {
	ctx, _ = of(ctx)
	u, err := s.Identity.UserByID(ctx, ids.From[ids.User](req.UserId))
	if err != nil {
		return nil, err
	}
	if notModified(req.Params.IfNoneMatch, tagOf(u.Version)) {
		return oapi.GetUser304Response{Headers: oapi.GetUser304ResponseHeaders{ETag: tagOf(u.Version)}}, nil
	}
	shown, err := s.withMeans(ctx, u)
	if err != nil {
		return nil, err
	}
	return oapi.GetUser200JSONResponse{Body: shown, Headers: oapi.GetUser200ResponseHeaders{ETag: tagOf(u.Version)}}, nil
}

// withMeans shows a person with what their tenant has and what they hold.
func (s *Server) withMeans(ctx context.Context, u identity.User) (oapi.UserDetail, error) {
	o := toUser(u)
	d := oapi.UserDetail{
		Id: o.Id, Email: o.Email, Name: o.Name, Role: o.Role, RoleFrom: oapi.UserDetailRoleFrom(o.RoleFrom), Issuer: o.Issuer, Tenant: o.Tenant,
		Disabled: o.Disabled, Version: o.Version, CreatedAt: o.CreatedAt, SignedInAt: o.SignedInAt,
	}
	var err error
	if d.ActiveAllocations, err = s.Allocations.CountActive(ctx, u.Tenant, u.ID); err != nil || u.Tenant == (ids.Tenant{}) {
		return d, err
	}
	balance, currency, err := s.Ledger.Balance(ctx, s.DB, u.Tenant)
	if errs.CodeOf(err) == errs.NotFound { // no money has moved yet
		return d, nil
	}
	d.Balance = filled(amount(balance, currency))
	return d, err
}

// UpdateUser handles PATCH /api/v1/admin/users/{user_id}.
func (s *Server) UpdateUser(ctx context.Context, req oapi.UpdateUserRequestObject) (oapi.UpdateUserResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	patch := identity.UserPatch{Name: req.Body.Name, Disabled: req.Body.Disabled}
	if req.Body.Role != nil {
		role := string(*req.Body.Role)
		patch.Role = &role
	}
	u, err := s.Identity.UpdateUser(ctx, keep(r, userReply(http.StatusOK)), ids.From[ids.User](req.UserId), version, patch)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateUser200JSONResponse{Body: toUser(u), Headers: oapi.UpdateUser200ResponseHeaders{ETag: tagOf(u.Version)}}, nil
}

// ListTenants handles GET /api/v1/admin/tenants.
func (s *Server) ListTenants(ctx context.Context, req oapi.ListTenantsRequestObject) (oapi.ListTenantsResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]identity.Tenant, error) {
		return s.Identity.Tenants(ctx, after, n)
	}, func(t identity.Tenant) string { return t.Name }, s.toTenant)
	if err != nil {
		return nil, err
	}
	return oapi.ListTenants200JSONResponse{
		Body:    oapi.TenantList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListTenants200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateTenant handles POST /api/v1/admin/tenants.
func (s *Server) CreateTenant(ctx context.Context, req oapi.CreateTenantRequestObject) (oapi.CreateTenantResponseObject, error) {
	ctx, r := of(ctx)
	t, err := s.Identity.CreateTenant(ctx, keep(r, s.tenantReply(http.StatusCreated)), req.Body.Name, or(req.Body.Currency, s.Currency()))
	if err != nil {
		return nil, err
	}
	return oapi.CreateTenant201JSONResponse{
		Body:    s.toTenant(t),
		Headers: oapi.CreateTenant201ResponseHeaders{Location: tenantAt(http.StatusCreated, t), ETag: tagOf(t.Version)},
	}, nil
}

// GetTenantByID handles GET /api/v1/admin/tenants/{tenant_id}.
func (s *Server) GetTenantByID(ctx context.Context, req oapi.GetTenantByIDRequestObject) (oapi.GetTenantByIDResponseObject, error) {
	ctx, _ = of(ctx)
	t, err := s.Identity.TenantByID(ctx, ids.From[ids.Tenant](req.TenantId))
	if err != nil {
		return nil, err
	}
	if notModified(req.Params.IfNoneMatch, tagOf(t.Version)) {
		return oapi.GetTenantByID304Response{Headers: oapi.GetTenantByID304ResponseHeaders{ETag: tagOf(t.Version)}}, nil
	}
	return oapi.GetTenantByID200JSONResponse{Body: s.toTenant(t), Headers: oapi.GetTenantByID200ResponseHeaders{ETag: tagOf(t.Version)}}, nil
}

// PlaceTenantMember handles PUT /api/v1/admin/tenants/{tenant_id}/members/{user_id}.
func (s *Server) PlaceTenantMember(ctx context.Context, req oapi.PlaceTenantMemberRequestObject) (oapi.PlaceTenantMemberResponseObject, error) {
	ctx, r := of(ctx)
	ch := keep(r, memberReply)
	ch.Caller.Tenant = ids.From[ids.Tenant](req.TenantId) // acts for that tenant
	m, err := s.Identity.PutTenantMember(ctx, ch, ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PlaceTenantMember200JSONResponse{Body: toMember(m)}, nil
}

func userReply(status int) func(identity.User) identity.Reply {
	return func(u identity.User) identity.Reply {
		location := ""
		if status == http.StatusCreated {
			location = userAt(u)
		}
		return reply(status, toUser(u), location, tagOf(u.Version))
	}
}

func userAt(u identity.User) string { return "/api/v1/admin/users/" + u.ID.String() }

func toUser(u identity.User) oapi.User {
	shown := oapi.User{
		Id: u.ID.UUID, Email: u.Email, Name: u.Name, Role: oapi.PlatformRole(u.Role), RoleFrom: oapi.UserRoleFrom(u.RoleFrom), Issuer: u.Issuer,
		Disabled: u.DisabledAt != nil, Version: u.Version, CreatedAt: u.CreatedAt.UTC(), SignedInAt: utc(u.SignedInAt),
	}
	if u.Tenant != (ids.Tenant{}) {
		shown.Tenant = &oapi.Membership{Id: u.Tenant.UUID, Name: u.TenantName, Role: u.TenantRole}
	}
	return shown
}
