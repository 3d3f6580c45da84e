package rest_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/platform/restore"
)

// whileRestored are the changes that are accepted while a restore is not confirmed: those of sign-ins. Each is a path of the
// router.
var whileRestored = map[string]bool{
	"/sign-in": true, "/sign-out": true, "/first-admin": true,
	"/api/v1/auth/oidc/exchange": true, "/api/v1/auth/personal/login": true, "/api/v1/auth/token/refresh": true, "/api/v1/auth/logout": true,
	"/api/v1/service-accounts/token": true, "/api/v1/auth/sessions/:id": true, "/api/v1/admin/sessions/:id": true,
}

// INV-63: while a restore is not confirmed, no route of the router changes anything, whether the contract contains it or not.
// Sign-ins are accepted: an operator needs them to read.
func TestINV63NoRouteChangesARestoredDatabase(t *testing.T) {
	t.Parallel()
	closed := &restore.Gate{Log: slog.New(slog.DiscardHandler)}
	b := setup(t, func(w *fixture, c *rest.Config) {
		closed.DB, c.Restore = w.db, closed
		c.RiverUI = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
	b.sql(`INSERT INTO restores (id, restored_to, by) VALUES (gen_random_uuid(), now(), 'ada')`)
	must(t, closed.Refresh(t.Context()))
	byRoute := map[string]openapi.Operation{}
	for _, op := range openapi.Operations(b.doc) {
		byRoute[op.Method+" "+parameter.ReplaceAllStringFunc(op.Path, func(name string) string { return ":" + strings.Trim(name, "{}") })] = op
	}
	accepted := map[string]bool{}
	for _, route := range b.server.Routes() {
		if route.Method == http.MethodGet || route.Method == http.MethodHead || route.Method == http.MethodOptions || route.Method == http.MethodTrace || route.Method == http.MethodConnect {
			continue
		}
		path, token := strings.NewReplacer(":id", unread, "*any", "jobs").Replace(route.Path), tokenAdmin
		op, published := byRoute[route.Method+" "+route.Path]
		if published {
			path, token = pathOf(op), tokenFor(op)
		}
		w := b.do(t, call{method: route.Method, path: path, token: token})
		switch {
		case whileRestored[route.Path]:
			accepted[route.Path] = true
			if w.Code == http.StatusServiceUnavailable {
				t.Errorf("%s %s is a sign-in, and gets %d: %s", route.Method, route.Path, w.Code, w.Body)
			}
		case route.Path == rest.RiverPath: // a redirect
		case w.Code != http.StatusServiceUnavailable:
			t.Errorf("%s %s: %d %s", route.Method, route.Path, w.Code, w.Body)
		}
	}
	for path := range whileRestored {
		if !accepted[path] {
			t.Errorf("%s is not served", path)
		}
	}
	for _, op := range openapi.Operations(b.doc) {
		if signsIn := op.Security != nil && op.Method != http.MethodGet; signsIn && !accepted[op.Path] && !strings.Contains(op.Path, "hook") && !strings.HasSuffix(op.Path, "/storage/signed") {
			t.Errorf("%s needs no sign-in, so it may be one; it is rejected", op.OperationID)
		}
	}
}
