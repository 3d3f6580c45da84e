package rest_test

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
)

// The API sees its callers through the proxy: each sender has a bucket, and
// browsers are told to come by HTTPS.
func TestRequestsThroughAProxy(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(5), func(_ *world, c *rest.Config) {
		c.Front = middleware.Front{
			URL:     &url.URL{Scheme: "https", Host: "gpuaas.example"},
			Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}
	})
	left := func(sender string) string {
		w := b.do(t, ask{method: "GET", path: "/api/v1/skus", token: tokenUnknown, from: "192.0.2.1:1", header: map[string]string{"X-Forwarded-For": sender}})
		if w.Code != 401 || w.Header().Get("Strict-Transport-Security") == "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		return w.Header().Get("X-RateLimit-Remaining")
	}
	first, second, other := left("198.51.100.7"), left("198.51.100.7"), left("198.51.100.8")
	if first == second || first != other {
		t.Errorf("one sender has %q, then %q; another %q", first, second, other)
	}
}
