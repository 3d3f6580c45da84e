package identity_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

func TestScopeOfACaller(t *testing.T) {
	t.Parallel()
	user, program, tenant := ids.New[ids.User](), ids.New[ids.ServiceAccount](), ids.New[ids.Tenant]()
	for name, c := range map[string]struct {
		caller   identity.Caller
		platform bool
		want     pg.Scope
	}{
		"a person":                 {identity.Caller{User: user, Tenant: tenant}, false, pg.Scope{Tenant: tenant.String(), Principal: user.String()}},
		"a program":                {identity.Caller{ServiceAccount: program, Tenant: tenant}, false, pg.Scope{Tenant: tenant.String(), Principal: program.String()}},
		"someone without a tenant": {identity.Caller{User: user}, false, pg.Scope{Principal: user.String()}},
		"an operator":              {identity.Caller{User: user, Tenant: tenant}, true, pg.Scope{Tenant: "platform", Principal: user.String()}},
		"an empty caller":          {identity.Caller{}, false, pg.Scope{}},
	} {
		if got := c.caller.Scope(c.platform); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
