package rest_test

import (
	"context"
	"net/http"
	"sync"
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

// scopedRows records the scope of the reads of pages by tenant.
type scopedRows struct {
	stream.EventSource

	mu     sync.Mutex
	scopes map[ids.Tenant]string
}

func (s *scopedRows) After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	s.mu.Lock()
	s.scopes[tenant] = pg.ScopeFrom(ctx).Tenant
	s.mu.Unlock()
	return s.EventSource.After(ctx, tenant, from, limit)
}

// Row-level security must permit what the roles permit: an operator who requests the events of all tenants gets them,
// and no other request reads pages of more than its own. The reader of the process reads the events of all tenants.
func TestEveryonesEventsAreReadUnderThePlatformsScope(t *testing.T) {
	t.Parallel()

	rows := &scopedRows{}
	b := setup(t, func(w *fixture, c *rest.Config) { rows.EventSource, c.Stream.Events = w.services.Events, rows })
	for _, token := range []string{tokenOperator, tokenAdmin} {
		for query, of := range map[string]ids.Tenant{"scope=platform&": {}, "": tenant, "scope=tenant&": tenant} {
			rows.mu.Lock()
			rows.scopes = map[ids.Tenant]string{}
			rows.mu.Unlock()
			w := b.do(t, call{method: "GET", path: "/api/v1/events?" + query + "since=0", token: token})
			rows.mu.Lock()
			if w.Code != 200 || of != (ids.Tenant{}) && rows.scopes[of] != of.String() {
				t.Errorf("%s, %q: %d, under %v", token, query, w.Code, rows.scopes)
			}
			for read, scope := range rows.scopes {
				if read == (ids.Tenant{}) && scope != pg.Platform.Tenant || read != (ids.Tenant{}) && read != of {
					t.Errorf("%s, %q: events of %s under %s", token, query, read, scope)
				}
			}
			rows.mu.Unlock()
		}
	}
}
