package identity

import (
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

// PolicyScopes lists the scopes at which policies for the caller may be set.
func (c Caller) PolicyScopes() []policies.Scope {
	return append(TenantScopes(c.Tenant, c.TenantName, c.Project), policies.In(policies.LevelUser, c.User.String()))
}

// TenantScopes lists the scopes of a tenant and, where it is set, of one of its projects. Files
// name a tenant by its name and the API by its id, so a tenant has two scopes.
func TenantScopes(tenant ids.Tenant, name string, project ids.Project) []policies.Scope {
	scopes := []policies.Scope{policies.In(policies.LevelTenant, name), policies.In(policies.LevelTenant, tenant.String())}
	if project != (ids.Project{}) {
		scopes = append(scopes, policies.In(policies.LevelProject, project.String()))
	}
	return scopes
}

// PolicyFrom returns a function that reads the policies of a caller from memory.
func PolicyFrom(client *policies.Client) func(Caller) policies.View {
	return func(c Caller) policies.View { return client.Latest().For(c.PolicyScopes()...) }
}
