package local

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// A user in no tenant and a service account have no field of the other.
func TestCallersAreDescribed(t *testing.T) {
	t.Parallel()
	user, tenant, project := &oapi.UserSummary{Email: "ada@example.org", Role: "user"}, &oapi.Membership{Name: "acme"}, &oapi.Membership{Name: "default"}
	for want, me := range map[string]oapi.Me{
		"ada@example.org (user), tenant acme, project default":  {User: user, Tenant: tenant, Project: project},
		"ada@example.org (user), in no tenant":                  {User: user},
		"service account trainer, tenant acme, project default": {ServiceAccount: &oapi.Membership{Name: "trainer"}, Tenant: tenant, Project: project},
		"ada@example.org (user), tenant acme":                   {User: user, Tenant: tenant},
		"no user, in no tenant":                                 {},
	} {
		if got := callerText(me); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
