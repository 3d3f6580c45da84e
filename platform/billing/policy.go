package billing

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// PolicyFrom returns a function that reads the policies of a tenant, or of one of its projects.
func PolicyFrom(client *policies.Client) func(ids.Tenant, ids.Project) policies.View {
	return func(tenant ids.Tenant, project ids.Project) policies.View {
		return client.Latest().For(identity.TenantScopes(tenant, project)...)
	}
}

// limitObject is a Policy object that sets a limit.
type limitObject struct {
	key     string
	scope   policies.Scope
	value   int64
	version int64
	byGit   bool
	source  desired.Source
}

// limitObjects reads the Policy objects of these keys that apply to a tenant or project. Git may name
// a tenant by the name that it has, or by one that it had when the value was applied.
func (s *Service) limitObjects(ctx context.Context, q pg.Queryer, keys []string, at place) ([]limitObject, error) {
	scopes, err := s.Policies.ScopesOf(ctx, q, []policies.Scope{at.own})
	if err != nil {
		return nil, err
	}
	texts := []string{string(at.own)}
	if at.project == (ids.Project{}) {
		texts = append(texts, string(policies.In(policies.LevelTenant, at.tenant.Name)))
	}
	for _, scope := range scopes {
		texts = append(texts, string(scope))
	}
	found, err := s.Desired.Policies(ctx, q, keys, texts)
	if err != nil {
		return nil, err
	}
	list := make([]limitObject, len(found))
	for i, o := range found {
		var spec desired.Policy
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		value, fault := policies.Check(spec.Key, spec.Scope, spec.Value)
		if fault != nil {
			return nil, fmt.Errorf("reading %s %s: %s", o.Kind, o.Name, fault.Message)
		}
		amount, _ := value.(int64) // both keys are amounts
		list[i] = limitObject{
			key: spec.Key, scope: policies.Scope(spec.Scope), value: amount, version: o.ResourceVersion,
			byGit: o.Source.Owner == desired.OwnerGit, source: o.Source,
		}
	}
	return list, nil
}

// putLimit writes a Policy object that the API owns. desired.Put rejects one that Git owns.
func (s *Service) putLimit(ctx context.Context, tx pgx.Tx, name, key string, scope policies.Scope, value int64) error {
	spec, err := json.Marshal(desired.Policy{Key: key, Scope: string(scope), Value: value})
	if err != nil {
		return fmt.Errorf("encoding policy %s: %w", key, err)
	}
	_, err = s.Desired.Put(ctx, tx, desired.Object{Kind: desired.KindPolicy, Name: name, Spec: spec})
	return err
}
