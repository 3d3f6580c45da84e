package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// bounded turns each token into a key that may look at allocations and no more.
type bounded struct{ rest.Identity }

func (b bounded) Authenticate(ctx context.Context, token string) (identity.Caller, error) {
	c, err := b.Identity.Authenticate(ctx, token)
	c.Scopes, _ = policies.ParseScopes([]string{"allocations:read"})
	c.Limited = true
	return c, err
}

// What is no operation of the contract is in no scope either.
func TestLimitedKeysOfOperatorsAreNoOperators(t *testing.T) {
	t.Parallel()

	reached := 0
	b := setup(t, func(c *rest.Config) {
		c.Identity = bounded{c.Identity}
		c.RiverUI = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
		c.Audit = func(context.Context, identity.Caller, string, string) error { return nil }
	})
	for _, token := range []string{tokenOperator, tokenAdmin} {
		for _, a := range []ask{
			{method: "GET", path: "/admin/river/api/jobs", token: token},
			{method: "POST", path: "/admin/river/api/jobs/cancel", token: token, body: "{}"},
			{method: "GET", path: "/api/v1/events?scope=platform", token: token},
			{method: "GET", path: "/api/v1/admin/users", token: token},
		} {
			if w := b.do(t, a); w.Code != 403 {
				t.Errorf("%s: %s %s: %d %s", token, a.method, a.path, w.Code, w.Body)
			}
		}
	}
	if reached != 0 {
		t.Errorf("%d requests reached the jobs", reached)
	}
}

// scopes remembers under which scope events were asked for, and has none.
type scopes struct{ seen *[]pg.Scope }

func (s scopes) Open(ctx context.Context, tenant ids.Tenant, _ ids.Project, _ string) (func(http.ResponseWriter) error, error) {
	*s.seen = append(*s.seen, pg.ScopeFrom(ctx), pg.Scope{Tenant: tenant.String()})
	return func(w http.ResponseWriter) error { w.WriteHeader(http.StatusOK); return nil }, nil
}

// Row-level security must let through what the door has allowed: an operator who
// asks for everyone's events gets them, and no other request gets more than its own.
func TestEveryonesEventsAreReadUnderThePlatformsScope(t *testing.T) {
	t.Parallel()

	var seen []pg.Scope
	b := setup(t, func(c *rest.Config) { c.Events = scopes{&seen} })
	for _, token := range []string{tokenOperator, tokenAdmin} {
		for path, want := range map[string]string{"?scope=platform": pg.Platform.Tenant, "": b.people.tenant.String(), "?scope=tenant": b.people.tenant.String()} {
			seen = nil
			if w := b.do(t, ask{method: "GET", path: "/api/v1/events" + path, token: token}); w.Code != 200 || len(seen) != 2 || seen[0].Tenant != want {
				t.Errorf("%s, %q: %d, under %v", token, path, w.Code, seen)
			}
			if everyone := strings.Contains(path, "platform"); everyone != (seen[1].Tenant == ids.Tenant{}.String()) {
				t.Errorf("%s, %q: requested the events of %s", token, path, seen[1].Tenant)
			}
		}
	}
}
