package rest_test

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
)

// The API identifies its callers through the proxy: each sender has a bucket, and browsers are instructed to use
// HTTPS.
func TestRequestsThroughAProxy(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(5), func(_ *fixture, c *rest.Config) {
		c.Front = middleware.Front{
			URL:     &url.URL{Scheme: "https", Host: "gpuaas.example"},
			Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}
	})
	left := func(sender string) string {
		w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown, from: "192.0.2.1:1", header: map[string]string{"X-Forwarded-For": sender}})
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

// An audit row names the client behind a trusted proxy. A client that names another one, or sends control
// characters, is recorded under its own address.
func TestAuditRowsNameTheClient(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.Front = middleware.Front{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	})
	for peer, want := range map[string]string{"192.0.2.1:1": "198.51.100.7", "203.0.113.5:1": "203.0.113.5", "[2001:db8::9]:1": "2001:db8::9"} {
		name := unusedName("p")
		w := b.do(t, call{
			method: "POST", path: "/api/v1/projects", token: tokenOwner, body: `{"name":"` + name + `"}`, from: peer,
			header: map[string]string{"X-Forwarded-For": "10.9.9.9, 198.51.100.7", "User-Agent": "evil\x1b[2J/" + strings.Repeat("x", 1000)},
		})
		if w.Code != 201 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		list := b.do(t, call{method: "GET", path: "/api/v1/audit-logs?action=project.create&limit=1", token: tokenOwner})
		var rows oapi.AuditList
		if err := json.Unmarshal(list.Body.Bytes(), &rows); err != nil || len(rows.Items) != 1 {
			t.Fatalf("%s: %v", list.Body, err)
		}
		r := rows.Items[0]
		if r.ClientAddress == nil || *r.ClientAddress != want || r.UserAgent == nil || len(*r.UserAgent) != 256 || !strings.HasPrefix(*r.UserAgent, "evil?[2J/x") {
			t.Errorf("from %s: %s", peer, list.Body)
		}
	}
}
