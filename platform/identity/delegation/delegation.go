// Package delegation lets a caller permit what happens later, while they are not present: a signed URL, or a request with
// an access key of the file storage. The rights are those that the caller has when it happens.
package delegation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Reference names a caller and the credential with which they permitted something.
type Reference struct {
	User           ids.User           `json:"u,omitzero"`
	ServiceAccount ids.ServiceAccount `json:"a,omitzero"`
	Tenant         ids.Tenant         `json:"t"`
	Project        ids.Project        `json:"p"`
	Key            ids.APIKey         `json:"k,omitzero"` // zero for other tokens than API keys
	Credential     ids.Credential     `json:"c,omitzero"`
	Scopes         policies.Scopes    `json:"s,omitzero"`
	Limited        bool               `json:"l,omitzero"`
}

// Refer returns the reference of a caller.
func Refer(c identity.Caller) Reference {
	return Reference{c.User, c.ServiceAccount, c.Tenant, c.Project, c.Key, c.Credential, c.Scopes, c.Limited}
}

const (
	selectPresentUser = `
		SELECT u.email, u.name, u.role, t.name, m.role, '{}'::text[] FROM users u
		JOIN tenant_memberships m ON m.user_id = u.id JOIN tenants t ON t.id = m.org_id
		WHERE u.id = $1 AND m.org_id = $2 AND u.disabled_at IS NULL AND t.deleted_at IS NULL AND ($3::uuid = '00000000-0000-0000-0000-000000000000' OR EXISTS (
			SELECT FROM api_keys WHERE id = $3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())))`
	selectPresentAccount = `
		SELECT '', a.name, '', t.name, '', a.scopes FROM service_accounts a
		JOIN projects p ON p.id = a.project_id JOIN tenants t ON t.id = a.org_id
		WHERE a.id = $1 AND a.org_id = $2 AND a.disabled_at IS NULL AND a.deleted_at IS NULL AND p.deleted_at IS NULL AND EXISTS (
			SELECT FROM service_account_credentials WHERE id = $3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))`
)

// Present returns a caller with the roles and the scopes that it has now in the same project. A caller who is disabled, has
// left the tenant or the project, or whose key has ended, gets forbidden.
func Present(ctx context.Context, s *identity.Service, r Reference) (identity.Caller, error) {
	c := identity.Caller{User: r.User, ServiceAccount: r.ServiceAccount, Tenant: r.Tenant, Project: r.Project, Key: r.Key, Credential: r.Credential, Scopes: r.Scopes, Limited: r.Limited}
	query, credential := selectPresentUser, r.Key.UUID
	if r.ServiceAccount != (ids.ServiceAccount{}) {
		query, credential = selectPresentAccount, r.Credential.UUID
	}
	var scopes []string
	err := s.DB.QueryRow(pg.WithScope(ctx, pg.Platform), query, c.Principal(), r.Tenant, credential).Scan(&c.Email, &c.Name, &c.Role, &c.TenantName, &c.TenantRole, &scopes)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return identity.Caller{}, errs.New(errs.Forbidden, "the caller who permitted this has lost the right")
	case err != nil:
		return identity.Caller{}, fmt.Errorf("reading the rights of a caller: %w", err)
	case r.ServiceAccount != (ids.ServiceAccount{}):
		has, err := policies.ParseScopes(scopes)
		if err != nil {
			return identity.Caller{}, fmt.Errorf("reading the scopes of a service account: %w", err)
		}
		c.Scopes &= has
	}
	return s.InProject(ctx, c, r.Project.String())
}
