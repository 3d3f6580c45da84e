// Package people serves users, tenants, projects, members, service accounts, keys and sessions.
package people

import (
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of users, tenants and projects.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
}

// ownURN names a resource that belongs to the caller, such as a key.
func (s *Handlers) ownURN(by identity.Caller, kind, id string) string {
	tenant := ""
	if by.Tenant != (ids.Tenant{}) {
		tenant = by.Tenant.String()
	}
	return s.Naming.Name(tenant, "", kind, id).String()
}

func (s *Handlers) tenantURN(id ids.Tenant) string {
	return s.Naming.Name(id.String(), "", "tenant", id.String()).String()
}
