package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/policies"
)

// PolicyScopes lists the scopes at which policies for the caller may be set.
func (c Caller) PolicyScopes() []policies.Scope {
	return append(TenantScopes(c.Tenant, c.Project), policies.In(policies.LevelUser, c.User.String()))
}

// TenantScopes lists the scopes of a tenant and, where it is set, of one of its projects. They
// contain ids, never names: a tenant chooses its name, and the name could be that of another scope.
func TenantScopes(tenant ids.Tenant, project ids.Project) []policies.Scope {
	scopes := []policies.Scope{policies.In(policies.LevelTenant, tenant.String())}
	if project != (ids.Project{}) {
		scopes = append(scopes, policies.In(policies.LevelProject, project.String()))
	}
	return scopes
}

// PolicyFrom returns a function that reads the policies of a caller from memory.
func PolicyFrom(client *policies.Client) func(Caller) policies.View {
	return func(c Caller) policies.View { return client.Latest().For(c.PolicyScopes()...) }
}

// ScopeSubjects resolves scopes of tenants, projects and users to the same scopes with ids. Only
// tenants can be named by name. A scope that names nothing is not in the result; the platform, regions,
// SKUs and nodes have no ids here, so their scopes are returned as they are.
func (s *Service) ScopeSubjects(ctx context.Context, q pg.Queryer, scopes []policies.Scope) (map[policies.Scope]policies.Scope, error) {
	names, which, subjects := []string{}, []uuid.UUID{}, map[policies.Scope]policies.Scope{}
	for _, scope := range scopes {
		id, err := uuid.Parse(scope.Name())
		switch level := scope.Level(); {
		case level != policies.LevelTenant && level != policies.LevelProject && level != policies.LevelUser:
			subjects[scope] = scope
		case err == nil:
			which = append(which, id)
		case level == policies.LevelTenant:
			names = append(names, scope.Name())
		}
	}
	found, err := pg.Pairs[policies.Scope, policies.Scope](ctx, q, selectScopeSubjects, names, which)
	if err != nil {
		return nil, fmt.Errorf("resolving the scopes of policies: %w", err)
	}
	for _, scope := range scopes {
		key := scope
		if id, err := uuid.Parse(scope.Name()); err == nil {
			key = policies.In(scope.Level(), id.String())
		}
		if subject, ok := found[key]; ok {
			subjects[scope] = subject
		}
	}
	return subjects, nil
}
