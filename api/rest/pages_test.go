package rest_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
)

// form returns the form of the sign-in page for the owner.
func form() string {
	return url.Values{"email": {emailOf(tokenOwner)}, "password": {rightPassword}}.Encode()
}

func TestDocumentsAreServed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for path, want := range map[string]string{
		"/api/openapi.json":      `"openapi":"3.1.0"`,
		"/api/asyncapi.json":     `"asyncapi":"3.0.0"`,
		"/api/docs":              "createAllocation",
		"/api/events":            `id="provisioning.active"`,
		"/docs/reference/errors": `id="sku_unavailable"`,
		"/assets/style.css":      "body {",
		"/":                      "You are not signed in",
	} {
		w := b.do(t, call{method: "GET", path: path})
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, without %q", path, w.Code, want)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has no policy", path)
		}
	}
}

func TestSignInAndOut(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	w := b.visit(t, "POST", "/sign-in", form()+"&return=/api/docs")
	cookies := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "/api/docs" || len(cookies) != 1 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if c := cookies[0]; c.Name != "gpuaas_session" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure || c.Path != "/" {
		t.Errorf("%+v", c)
	}
	if w := b.visit(t, "GET", "/", "", with(cookies[0])); !strings.Contains(w.Body.String(), "You are <strong>owner</strong>") {
		t.Errorf("%s", w.Body)
	}
	if w := b.visit(t, "GET", "/api/v1/users/me", "", with(cookies[0])); w.Code != 200 {
		t.Errorf("the API does not accept the cookie: %d", w.Code)
	}
	if w := b.visit(t, "GET", "/api/v1/users/me", "", with(cookies[0]), func(r *http.Request) { r.Host = "gpu.example" }); w.Code != 401 {
		t.Errorf("a plain cookie is accepted from another computer: %d", w.Code)
	}
	out := b.visit(t, "POST", "/sign-out", "x=1", with(cookies[0]))
	if out.Code != 303 || out.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("%d %v", out.Code, out.Header())
	}
	if w := b.visit(t, "GET", "/api/v1/users/me", "", with(cookies[0])); w.Code != 401 {
		t.Errorf("after signing out: %d", w.Code)
	}
}

func TestSecureCookieOnTLS(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	overTLS := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{}
		r.Header.Set("Origin", "https://"+host)
	}
	w := b.visit(t, "POST", "/sign-in", form(), overTLS)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].Name != "__Host-gpuaas" || !c[0].Secure || c[0].Domain != "" {
		t.Errorf("%d %v", w.Code, c)
	}
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Error("no HSTS")
	}
	// A plain cookie may have been set by anyone on the network.
	if w := b.visit(t, "GET", "/api/v1/users/me", "", overTLS, with(b.signIn(tokenOwner))); w.Code != 401 {
		t.Errorf("the plain cookie counts over TLS: %d", w.Code)
	}
}

// A page of another site cannot write with its visitor's cookie.
func TestWritesWithACookieComeFromHere(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	cookie := b.signIn(tokenOwner)
	from := func(origin string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Origin", origin)
			r.Header.Set("Content-Type", "application/json")
		}
	}
	const body = `{"sku":"h100-sxm"}`
	for _, origin := range []string{"https://evil.example", "null", "http://localhost:9999", "https://" + host} {
		if w := b.visit(t, "POST", allocations, body, from(origin), with(cookie)); w.Code != 403 || problem(t, w).Code != "origin_not_allowed" {
			t.Errorf("%s: %d %s", origin, w.Code, w.Body)
		}
	}
	if w := b.visit(t, "POST", allocations, body, from("http://"+host), with(cookie)); w.Code != 201 {
		t.Errorf("from here: %d %s", w.Code, w.Body)
	}
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	if w := b.visit(t, "POST", "/sign-in", form(), evil); w.Code != 403 {
		t.Errorf("another site signs its visitor in: %d", w.Code)
	}
}

func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	for _, to := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "/%09/evil.example", "/%09%2Fevil.example", "%09//evil.example", "/%00/evil.example", ""} {
		w := b.visit(t, "POST", "/sign-in", form()+"&return="+to)
		if w.Header().Get("Location") != "/" {
			t.Errorf("%q leads to %s", to, w.Header().Get("Location"))
		}
	}
}

// Operators read jobs, admins act, and each act is recorded first.
func TestWhoSeesTheJobs(t *testing.T) {
	t.Parallel()

	var reached []string
	b := setup(t, passwords, func(_ *fixture, c *rest.Config) {
		c.RiverUI = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached = append(reached, r.Method+" "+r.URL.Path) })
	})
	act := func(token, method string) int {
		form := ""
		if method == "POST" {
			form = "x=1"
		}
		return b.visit(t, method, "/admin/river/api/jobs/cancel", form, with(b.signIn(token))).Code
	}
	for who, want := range map[string][2]int{tokenOwner: {403, 403}, tokenOperator: {200, 403}, tokenAdmin: {200, 200}} {
		if get, post := act(who, "GET"), act(who, "POST"); get != want[0] || post != want[1] {
			t.Errorf("%s: GET %d, POST %d", who, get, post)
		}
	}
	audited := read[string](b, `SELECT string_agg(actor || ' ' || action || ' ' || target_urn, ', ') FROM audit_logs`)
	if len(reached) != 3 || audited != "user:"+users[tokenAdmin].String()+" river.post /api/jobs/cancel" {
		t.Errorf("reached %v, audited %v", reached, audited)
	}
	if w := b.visit(t, "GET", "/admin/river/jobs", ""); w.Code != 302 || w.Header().Get("Location") != "/sign-in?return=%2Fadmin%2Friver%2Fjobs" {
		t.Errorf("no session: %d %v", w.Code, w.Header())
	}
	if w := b.do(t, call{method: "GET", path: "/admin/river/api/jobs"}); w.Code != 401 {
		t.Errorf("a program without a token: %d", w.Code)
	}
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	if w := b.visit(t, "POST", "/admin/river/api/jobs/cancel", "x=1", with(b.signIn(tokenAdmin)), evil); w.Code != 403 {
		t.Errorf("another site acts with an admin's cookie: %d", w.Code)
	}
}
