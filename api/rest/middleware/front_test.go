package middleware

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

// The source of a request is read from trusted proxies, from the last to
// the first, and from no other header.
func TestTheSenderComesFromTrustedProxies(t *testing.T) {
	t.Parallel()

	f := Front{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}}
	for rule, c := range map[string]struct {
		peer string
		says []string
		want string
	}{
		"no proxy":                        {"203.0.113.5:1", []string{"198.51.100.7"}, "203.0.113.5:1"},
		"a proxy without a header":        {"192.0.2.1:1", nil, "192.0.2.1:1"},
		"a proxy":                         {"192.0.2.1:1", []string{"198.51.100.7"}, "198.51.100.7:0"},
		"a proxy behind a proxy":          {"192.0.2.1:1", []string{"198.51.100.7, 192.0.2.9"}, "198.51.100.7:0"},
		"what the sender wrote is behind": {"192.0.2.1:1", []string{"10.0.0.1, 198.51.100.7"}, "198.51.100.7:0"},
		"in several headers":              {"192.0.2.1:1", []string{"10.0.0.1", "198.51.100.7"}, "198.51.100.7:0"},
		"nonsense":                        {"192.0.2.1:1", []string{"198.51.100.7, unknown"}, "192.0.2.1:1"},
		"version 6":                       {"[2001:db8::1]:1", []string{"2001:db9::7"}, "[2001:db9::7]:0"},
		"version 4 in 6":                  {"[::ffff:192.0.2.1]:1", []string{"::ffff:198.51.100.7"}, "198.51.100.7:0"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.peer, c.says
		f.unwrap(r)
		if r.RemoteAddr != c.want {
			t.Errorf("%s: got %s, want %s", rule, r.RemoteAddr, c.want)
		}
	}
}

// Behind a proxy that ends TLS, browsers get the cookie that only HTTPS may have,
// and the provider leads them back to the name that they know.
func TestBehindTLSThatAProxyEnds(t *testing.T) {
	t.Parallel()

	public, err := url.Parse("https://gpuaas.example")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Host = "10.1.2.3:8080"
	r.Header.Set("Origin", "https://gpuaas.example")
	if request.SameOrigin(r) == nil {
		t.Error("without a front, another name is the same origin")
	}
	Front{URL: public}.unwrap(r)
	if err := request.SameOrigin(r); err != nil {
		t.Error(err)
	}
	c := request.SessionCookie(r, "gpb_x", time.Hour)
	r.AddCookie(c)
	if token, err := request.SessionToken(r); c.Name != "__Host-gpuaas" || !c.Secure || token != "gpb_x" || err != nil {
		t.Errorf("cookie %v reads %q, %v", c, token, err)
	}
}
