package people

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// ListUsers handles GET /api/v1/admin/users.
func (s *Handlers) ListUsers(ctx context.Context, req oapi.ListUsersRequestObject) (oapi.ListUsersResponseObject, error) {
	ctx, r := request.Of(ctx)
	f := identity.UserFilter{Text: request.Or(req.Params.Q, ""), Role: request.Or(req.Params.Role, "")}
	if req.Params.Tenant != nil {
		f.Tenant = ids.From[ids.Tenant](*req.Params.Tenant)
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.User, n int) ([]identity.User, error) {
		f.After, f.Limit = after, n
		return s.Identity.Users(ctx, f)
	}, func(u identity.User) ids.User { return u.ID }, s.toUser)
	if err != nil {
		return nil, err
	}
	return oapi.ListUsers200JSONResponse{
		Body:    oapi.UserList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListUsers200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateUser handles POST /api/v1/admin/users.
func (s *Handlers) CreateUser(ctx context.Context, req oapi.CreateUserRequestObject) (oapi.CreateUserResponseObject, error) {
	ctx, r := request.Of(ctx)
	n := identity.NewUser{Email: req.Body.Email, Name: req.Body.Name, Role: request.Or(req.Body.Role, "user")}
	if req.Body.TenantId != nil {
		n.Tenant, n.TenantRole = ids.From[ids.Tenant](*req.Body.TenantId), string(request.Or(req.Body.TenantRole, "member"))
	} else if req.Body.TenantRole != nil {
		return nil, errs.Invalid("tenant_role", "needs a tenant_id")
	}
	u, err := s.Identity.CreateUser(ctx, response.Change(r, s.userReply(http.StatusCreated)), n)
	if err != nil {
		return nil, err
	}
	return oapi.CreateUser201JSONResponse{Body: s.toUser(u), Headers: oapi.CreateUser201ResponseHeaders{Location: userAt(u), ETag: request.ETag(u.Version)}}, nil
}

// GetUser handles GET /api/v1/admin/users/{user_id}.
func (s *Handlers) GetUser(ctx context.Context, req oapi.GetUserRequestObject) (oapi.GetUserResponseObject, error) {
	ctx, _ = request.Of(ctx)
	u, err := s.Identity.UserByID(ctx, ids.From[ids.User](req.UserId))
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(u.Version)) {
		return oapi.GetUser304Response{Headers: oapi.GetUser304ResponseHeaders{ETag: request.ETag(u.Version)}}, nil
	}
	shown, err := s.withMeans(ctx, u)
	if err != nil {
		return nil, err
	}
	return oapi.GetUser200JSONResponse{Body: shown, Headers: oapi.GetUser200ResponseHeaders{ETag: request.ETag(u.Version)}}, nil
}

// withMeans encodes a user with the user's active allocations and the balance of the tenant.
func (s *Handlers) withMeans(ctx context.Context, u identity.User) (oapi.UserDetail, error) {
	o := s.toUser(u)
	d := oapi.UserDetail{
		Id: o.Id, Urn: o.Urn, Email: o.Email, Name: o.Name, Role: o.Role, RoleFrom: oapi.UserDetailRoleFrom(o.RoleFrom), Issuer: o.Issuer, Tenant: o.Tenant,
		Disabled: o.Disabled, Version: o.Version, CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, SignedInAt: o.SignedInAt,
	}
	var err error
	if d.ActiveAllocations, err = s.Allocations.CountActive(ctx, u.Tenant, u.ID); err != nil || u.Tenant == (ids.Tenant{}) {
		return d, err
	}
	balance, currency, err := s.Ledger.Balance(ctx, s.DB, u.Tenant)
	if errs.CodeOf(err) == errs.NotFound { // no money has moved yet
		return d, nil
	}
	d.Balance = response.OrNil(response.Money(balance, currency))
	return d, err
}

// UpdateUser handles PATCH /api/v1/admin/users/{user_id}.
func (s *Handlers) UpdateUser(ctx context.Context, req oapi.UpdateUserRequestObject) (oapi.UpdateUserResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	patch := identity.UserPatch{Name: req.Body.Name, Disabled: req.Body.Disabled, Relink: req.Body.Relink != nil, SameOwner: req.Body.SameOwner != nil}
	if req.Body.Role != nil {
		role := *req.Body.Role
		patch.Role = &role
	}
	u, err := s.Identity.UpdateUser(ctx, response.Change(r, s.userReply(http.StatusOK)), ids.From[ids.User](req.UserId), version, patch)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateUser200JSONResponse{Body: s.toUser(u), Headers: oapi.UpdateUser200ResponseHeaders{ETag: request.ETag(u.Version)}}, nil
}

// ListTenants handles GET /api/v1/admin/tenants.
func (s *Handlers) ListTenants(ctx context.Context, req oapi.ListTenantsRequestObject) (oapi.ListTenantsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]identity.Tenant, error) {
		return s.Identity.Tenants(ctx, after, n)
	}, func(t identity.Tenant) string { return t.Name }, s.toTenant)
	if err != nil {
		return nil, err
	}
	return oapi.ListTenants200JSONResponse{
		Body:    oapi.TenantList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListTenants200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateTenant handles POST /api/v1/admin/tenants.
func (s *Handlers) CreateTenant(ctx context.Context, req oapi.CreateTenantRequestObject) (oapi.CreateTenantResponseObject, error) {
	ctx, r := request.Of(ctx)
	t, err := s.Identity.CreateTenant(ctx, response.Change(r, s.tenantReply(http.StatusCreated)), req.Body.Name, request.Or(req.Body.Currency, s.Policies.Latest().For().String(policies.BillingCurrency)))
	if err != nil {
		return nil, err
	}
	return oapi.CreateTenant201JSONResponse{
		Body:    s.toTenant(t),
		Headers: oapi.CreateTenant201ResponseHeaders{Location: tenantAt(http.StatusCreated, t), ETag: request.ETag(t.Version)},
	}, nil
}

// GetTenantByID handles GET /api/v1/admin/tenants/{tenant_id}.
func (s *Handlers) GetTenantByID(ctx context.Context, req oapi.GetTenantByIDRequestObject) (oapi.GetTenantByIDResponseObject, error) {
	ctx, _ = request.Of(ctx)
	t, err := s.Identity.TenantByID(ctx, ids.From[ids.Tenant](req.TenantId))
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(t.Version)) {
		return oapi.GetTenantByID304Response{Headers: oapi.GetTenantByID304ResponseHeaders{ETag: request.ETag(t.Version)}}, nil
	}
	return oapi.GetTenantByID200JSONResponse{Body: s.toTenant(t), Headers: oapi.GetTenantByID200ResponseHeaders{ETag: request.ETag(t.Version)}}, nil
}

// PlaceTenantMember handles PUT /api/v1/admin/tenants/{tenant_id}/members/{user_id}.
func (s *Handlers) PlaceTenantMember(ctx context.Context, req oapi.PlaceTenantMemberRequestObject) (oapi.PlaceTenantMemberResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, memberReply)
	ch.Caller.Tenant = ids.From[ids.Tenant](req.TenantId) // acts for that tenant
	m, err := s.Identity.PutTenantMember(ctx, ch, ids.From[ids.User](req.UserId), string(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return oapi.PlaceTenantMember200JSONResponse{Body: toMember(m)}, nil
}

// DeleteTenant handles DELETE /api/v1/admin/tenants/{tenant_id}.
func (s *Handlers) DeleteTenant(ctx context.Context, req oapi.DeleteTenantRequestObject) (oapi.DeleteTenantResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Removal.DeleteTenant(ctx, response.Change(r, nothing), ids.From[ids.Tenant](req.TenantId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteTenant204Response{}, nil
}

// DeleteUser handles DELETE /api/v1/admin/users/{user_id}.
func (s *Handlers) DeleteUser(ctx context.Context, req oapi.DeleteUserRequestObject) (oapi.DeleteUserResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Removal.DeleteUser(ctx, response.Change(r, nothing), ids.From[ids.User](req.UserId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteUser204Response{}, nil
}

func (s *Handlers) userReply(status int) func(identity.User) identity.Reply {
	return func(u identity.User) identity.Reply {
		location := ""
		if status == http.StatusCreated {
			location = userAt(u)
		}
		return response.Reply(status, s.toUser(u), location, request.ETag(u.Version))
	}
}

func userAt(u identity.User) string { return "/api/v1/admin/users/" + u.ID.String() }

func (s *Handlers) toUser(u identity.User) oapi.User {
	shown := oapi.User{
		Id: u.ID.UUID, Urn: u.URN(s.Naming), Email: u.Email, Name: u.Name, Role: u.Role, RoleFrom: oapi.UserRoleFrom(u.RoleFrom), Issuer: u.Issuer,
		Disabled: u.DisabledAt != nil, Version: u.Version, CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(), SignedInAt: response.UTC(u.SignedInAt),
	}
	if u.Tenant != (ids.Tenant{}) {
		shown.Tenant = &oapi.Membership{Id: u.Tenant.UUID, Urn: s.tenantURN(u.Tenant), Name: u.TenantName, Role: u.TenantRole}
	}
	return shown
}
