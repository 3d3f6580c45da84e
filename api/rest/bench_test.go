package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/platform/identity"
)

type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// What the door adds to a call: rooms answer from memory here.
func BenchmarkDoor(b *testing.B) {
	wide := func(c *rest.Config) {
		c.Limits = func(rest.Class, identity.Caller) rest.Limit { return rest.Limit{PerMinute: 1 << 30, Burst: 1 << 20} }
	}
	for name, a := range map[string]ask{
		"livez":  {method: "GET", path: "/livez"},
		"me":     {method: "GET", path: "/api/v1/users/me"},
		"create": {method: "POST", path: allocations, body: `{"sku":"h100-sxm","gpus":2,"name":"otter","labels":{"team":"vision"},"ttl_seconds":7200}`},
	} {
		b.Run(name, func(b *testing.B) {
			d := setup(b, wide)
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), a.method, a.path, strings.NewReader(a.body))
				req.Header.Set("Authorization", "Bearer "+tokenOwner)
				req.Header.Set("Content-Type", "application/json")
				d.door.ServeHTTP(nowhere{http.Header{}}, req)
			}
		})
	}
}
