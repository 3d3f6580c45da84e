package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/platform/identity"
)

type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkAPI measures requests that read nothing from the database, and one that does.
func BenchmarkAPI(b *testing.B) {
	wide := func(_ *fixture, c *rest.Config) {
		c.Limits = func(request.Class, identity.Caller) middleware.Limit {
			return middleware.Limit{PerMinute: 1 << 30, Burst: 1 << 20}
		}
	}
	for name, a := range map[string]call{
		"livez": {method: "GET", path: "/livez"},
		"me":    {method: "GET", path: "/api/v1/users/me"},
		"get":   {method: "GET", path: allocations},
	} {
		b.Run(name, func(b *testing.B) {
			d := setup(b, wide)
			if name == "get" {
				a.path += "/" + d.allocate(b).Id.String()
			}
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), a.method, a.path, strings.NewReader(a.body))
				req.Header.Set("Authorization", "Bearer "+tokenOwner)
				d.handler.ServeHTTP(nowhere{http.Header{}}, req)
			}
		})
	}
}
