package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// What is no operation of the contract is in no scope either.
func TestLimitedKeysOfOperatorsAreNoOperators(t *testing.T) {
	t.Parallel()

	reached := 0
	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.RiverUI = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
	})
	b.sql(`UPDATE api_keys SET scopes = '{allocations:read}'`)
	for _, token := range []string{tokenOperator, tokenAdmin} {
		for _, a := range []call{
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

// scopedRows records the scope and the tenant of each read of events.
type scopedRows struct {
	stream.EventSource

	scope  string
	tenant ids.Tenant
}

func (s *scopedRows) Latest(ctx context.Context, tenant ids.Tenant) (event.Position, error) {
	s.scope, s.tenant = pg.ScopeFrom(ctx).Tenant, tenant
	return s.EventSource.Latest(ctx, tenant)
}

// Row-level security must permit what the roles permit: an operator who requests the events of all tenants gets them,
// and no other request gets more than its own.
func TestEveryonesEventsAreReadUnderThePlatformsScope(t *testing.T) {
	t.Parallel()

	facts := &scopedRows{}
	b := setup(t, func(w *fixture, c *rest.Config) { facts.EventSource, c.Stream.Events = w.services.Events, facts })
	for _, token := range []string{tokenOperator, tokenAdmin} {
		for path, want := range map[string]string{"?scope=platform": pg.Platform.Tenant, "": tenant.String(), "?scope=tenant": tenant.String()} {
			facts.scope = ""
			if w := b.do(t, call{method: "GET", path: "/api/v1/events" + path, token: token}); w.Code != 200 || facts.scope != want {
				t.Errorf("%s, %q: %d, under %v", token, path, w.Code, facts.scope)
			}
			if everyone := strings.Contains(path, "platform"); everyone != (facts.tenant == ids.Tenant{}) {
				t.Errorf("%s, %q: requested the events of %s", token, path, facts.tenant)
			}
		}
	}
}
