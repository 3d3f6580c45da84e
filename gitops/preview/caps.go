package preview

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

// caps are the policy keys that limit the number of concurrent allocations.
var caps = []struct {
	key policies.IntKey
	of  func(Holder) (scope policies.Scope, name string)
}{
	{policies.AllocationMaxConcurrentPerTenant, func(h Holder) (policies.Scope, string) {
		return policies.In(policies.LevelTenant, h.Tenant.String()), h.TenantName
	}},
	{policies.AllocationMaxConcurrentPerProject, func(h Holder) (policies.Scope, string) {
		return policies.In(policies.LevelProject, h.Project.String()), h.ProjectName
	}},
	{policies.AllocationMaxConcurrentPerUser, func(h Holder) (policies.Scope, string) {
		return policies.In(policies.LevelUser, h.User.String()), ""
	}},
}

func isCap(key string) bool {
	return slices.ContainsFunc(caps, func(c struct {
		key policies.IntKey
		of  func(Holder) (policies.Scope, string)
	},
	) bool {
		return string(c.key) == key
	})
}

// policiesAfter returns the policies in effect after the change.
func (e effect) policiesAfter() policies.Snapshot {
	s := e.inputs.Policies
	set := func(o desired.Object, there bool) {
		spec := specOf[desired.Policy](o)
		if o.Kind != desired.KindPolicy || !isCap(spec.Key) {
			return
		}
		value, fault := policies.Check(spec.Key, spec.Scope, spec.Value)
		if !there || fault != nil {
			value = nil
		}
		s = s.With(spec.Key, e.inputs.subject(policies.Scope(spec.Scope)), value)
	}
	for _, o := range e.deleted {
		set(o, false)
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		set(p.Old, false)
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		set(p.New, true)
	}
	for _, o := range e.created {
		set(o, true)
	}
	return s
}

// overCaps returns the holders of more allocations than a lowered cap.
func (e effect) overCaps() []OverCap {
	list := []OverCap{}
	now, then := e.inputs.Policies, e.policiesAfter()
	for _, c := range caps {
		used := map[policies.Scope]int64{}
		for _, h := range e.inputs.Holders {
			scope, _ := c.of(h)
			if scope.Level() == policies.LevelUser {
				// A person is counted in all their projects of the tenant.
				scope += policies.Scope(" " + h.Tenant.String())
			}
			used[scope] += h.Count
		}
		worst := map[policies.Scope]OverCap{}
		for _, h := range e.inputs.Holders {
			scope, name := c.of(h)
			key := scope
			if scope.Level() == policies.LevelUser {
				key += policies.Scope(" " + h.Tenant.String())
			}
			along := h.scopes()
			limit := then.For(along...).Int(c.key)
			if limit >= now.For(along...).Int(c.key) || used[key] <= limit {
				continue
			}
			if had, ok := worst[key]; !ok || limit < had.Limit {
				worst[key] = OverCap{string(c.key), string(scope), name, limit, used[key]}
			}
		}
		for _, o := range worst {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b OverCap) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Used, b.Used))
	})
	return list
}

// scopes returns the policy scopes that apply to a request of the holder.
func (h Holder) scopes() []policies.Scope {
	list := []policies.Scope{policies.In(policies.LevelTenant, h.Tenant.String()), policies.In(policies.LevelProject, h.Project.String())}
	if h.User != (ids.User{}) {
		list = append(list, policies.In(policies.LevelUser, h.User.String()))
	}
	return list
}
