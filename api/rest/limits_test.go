package rest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/ratelimit"
)

// A minute gives one back, so that no test meets a refill.
func slow(burst int) option {
	return func(_ *fixture, c *rest.Config) {
		c.Limits = func(class request.Class, _ identity.Caller) middleware.Limit {
			if class == request.ClassTenant {
				return middleware.Limit{PerMinute: 1, Burst: 10 * burst}
			}
			return middleware.Limit{PerMinute: 1, Burst: burst}
		}
	}
}

var errAway = errors.New("no route to host")

// away are shared limits in a database that is away.
func away() ratelimit.Limits {
	d := &database{}
	d.fail("", 0, errAway)
	return ratelimit.Limits{DB: d}
}

// Two replicas on one database let about one limit through, for reads as soon as
// they have synchronised, for sign-ins at once.
func TestReplicasShareLimits(t *testing.T) {
	t.Parallel()

	shared := ratelimit.Limits{DB: pgtest.Clone(t)}
	one := setup(t, slow(10), func(_ *fixture, c *rest.Config) { c.SharedLimits = shared }, passwords)
	two := setupOn(t, one.db, slow(10), func(_ *fixture, c *rest.Config) { c.SharedLimits = shared }, passwords)
	passed := 0
	for range 15 {
		for _, b := range []*fixture{one, two} {
			if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner}); w.Code == 200 {
				passed++
			}
			b.server.ShareOnce(t.Context())
		}
	}
	// Each server may have passed one before it heard of the other's last.
	if passed < 10 || passed > 12 {
		t.Errorf("%d reads passed two servers with one limit of 10", passed)
	}

	passed = 0
	for range 15 {
		for _, b := range []*fixture{one, two} {
			w := b.do(t, trySignIn())
			if w.Code != 429 {
				passed++
			} else if w.Header().Get("Retry-After") == "" || w.Header().Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("%v", w.Header())
			}
		}
	}
	if passed != 10 {
		t.Errorf("%d sign-ins passed a limit of 10", passed)
	}
}

// trySignIn is the try of a sign-in at the page.
func trySignIn() call {
	return call{method: "POST", path: "/sign-in", body: "email=nobody", from: "127.0.0.1:5", header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Host": "127.0.0.1", "Origin": "http://127.0.0.1",
	}}
}

// AT-072: reads and writes go on and are counted, what can be guessed is rejected.
func TestLimiterStoreAway(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(10), func(_ *fixture, c *rest.Config) { c.SharedLimits = away() }, passwords)
	read := call{method: "GET", path: "/api/v1/skus", token: tokenOwner}
	if w := b.do(t, read); w.Code != 200 {
		t.Errorf("before it is known: %d", w.Code)
	}
	b.server.ShareOnce(t.Context())
	for _, a := range []call{read, {method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`}} {
		if w := b.do(t, a); w.Code/100 != 2 || w.Header().Get("RateLimit") == "" {
			t.Errorf("%s %s: %d %v", a.method, a.path, w.Code, w.Header())
		}
	}
	for range 2 {
		w := b.do(t, trySignIn())
		if w.Code != 503 || problem(t, w).Code != "limiter_unavailable" || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "route") {
			t.Errorf("sign-in: %d %s", w.Code, w.Body)
		}
	}
	b.metrics(t, map[string]float64{
		"gpuaas_ratelimit_decisions_total class=read result=allowed":        1,
		"gpuaas_ratelimit_decisions_total class=read result=fail_open":      1,
		"gpuaas_ratelimit_decisions_total class=write result=fail_open":     1,
		"gpuaas_ratelimit_decisions_total class=sign-in result=fail_closed": 2,
		"gpuaas_authz_decisions_total effect=allow operation=listSkus":      2,
	})
	// It still counts for itself.
	for range 12 {
		b.do(t, read)
	}
	if w := b.do(t, read); w.Code != 429 {
		t.Errorf("without the store there is no limit: %d", w.Code)
	}
}

// Requests counted while the store was away are added when it is back.
func TestSpendingIsAddedLate(t *testing.T) {
	t.Parallel()

	store := &database{Pool: pgtest.Clone(t)}
	store.fail("", 0, errAway)
	shared := ratelimit.Limits{DB: store}
	one := setup(t, slow(10), func(_ *fixture, c *rest.Config) { c.SharedLimits = shared })
	two := setupOn(t, one.db, slow(10), func(_ *fixture, c *rest.Config) { c.SharedLimits = shared })
	for range 10 {
		one.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner})
	}
	one.server.ShareOnce(t.Context())
	store.fail("", 0, nil)
	one.server.ShareOnce(t.Context())
	two.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner})
	two.server.ShareOnce(t.Context())
	if w := two.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner}); w.Code != 429 {
		t.Errorf("another server has not heard of 10 requests: %d", w.Code)
	}
}

// The tenant's bucket limits callers that each stay within their own limit.
func TestTenantLimit(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.Limits = func(class request.Class, _ identity.Caller) middleware.Limit {
			if class == request.ClassTenant {
				return middleware.Limit{PerMinute: 1, Burst: 3}
			}
			return middleware.Limit{PerMinute: 60, Burst: 10}
		}
	})
	for i, token := range []string{tokenOwner, tokenMember, tokenStranger, tokenOwner} {
		w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: token})
		if want := 200; i < 3 && w.Code != want {
			t.Errorf("request %d: %d", i, w.Code)
		}
		if i == 3 && (w.Code != 429 || w.Header().Get("RateLimit-Policy") != `"tenant";q=3;w=180` || !strings.Contains(w.Body.String(), "tenant")) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenAdmin}); w.Code != 429 {
		t.Errorf("the admin of the tenant: %d", w.Code)
	}
}

// Both families of headers are on whatever a limited call is answered, and the
// drafts' are structured fields.
func TestLimitHeadersAreOnEveryAnswer(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(200))
	for what, a := range map[string]call{
		"200": {method: "GET", path: "/api/v1/skus", token: tokenOwner},
		"400": {method: "GET", path: "/api/v1/skus?x=1", token: tokenOwner},
		"401": {method: "GET", path: "/api/v1/skus", token: tokenUnknown},
		"403": {method: "GET", path: "/api/v1/admin/nodes", token: tokenOwner},
		"404": {method: "GET", path: "/api/v1/skus/none", token: tokenOwner},
		"415": {method: "POST", path: allocations, token: tokenOwner, body: "{}", header: map[string]string{"Content-Type": "text/plain"}},
	} {
		w := b.do(t, a)
		if fmt.Sprint(w.Code) != what {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		h := w.Header()
		var q, window, left, reset int
		class, _, _ := strings.Cut(h.Get("RateLimit"), ";")
		if _, err := fmt.Sscanf(h.Get("RateLimit-Policy"), class+";q=%d;w=%d", &q, &window); err != nil || q != 200 || window != 200*60 {
			t.Errorf("%s: policy %q: %v", what, h.Get("RateLimit-Policy"), err)
		}
		if _, err := fmt.Sscanf(h.Get("RateLimit"), class+";r=%d;t=%d", &left, &reset); err != nil {
			t.Errorf("%s: %q: %v", what, h.Get("RateLimit"), err)
		}
		if h.Get("X-RateLimit-Limit") != fmt.Sprint(q) || h.Get("X-RateLimit-Remaining") != fmt.Sprint(left) || h.Get("X-RateLimit-Reset") != fmt.Sprint(reset) {
			t.Errorf("%s: the families differ: %v", what, h)
		}
	}
}
