package rest_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/web"
)

// withPortal serves a built portal of one file.
func withPortal(_ *fixture, c *rest.Config) {
	var err error
	c.Portal, err = web.PortalOf(fstest.MapFS{
		"index.html":         {Data: []byte(`<meta name="csp-nonce" content="__NONCE__"><div id="root">`)},
		"assets/a-1.js":      {Data: []byte("plain")},
		"assets/a-1.js.gz":   {Data: []byte("gzipped")},
		"assets/a-1.js.br":   {Data: []byte("brotli")},
		"assets/b-1.css":     {Data: []byte("body{}")},
		"assets/c-1.unknown": {Data: []byte("?")},
	})
	if err != nil {
		panic(err)
	}
}

// Each screen is the same page under a policy whose nonce counts for one response.
func TestPortalPages(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords, withPortal)
	nonces := map[string]bool{}
	for _, path := range []string{"/portal/", "/portal/allocations?status=active", "/portal/allocations/01990f41", "/portal/unknown"} {
		w := b.visit(t, "GET", path, "")
		policy := w.Header().Get("Content-Security-Policy")
		nonce := regexp.MustCompile(`'nonce-([A-Z0-9]{26,})'`).FindStringSubmatch(policy)
		if w.Code != 200 || nonce == nil || !strings.Contains(w.Body.String(), `content="`+nonce[1]+`"`) {
			t.Fatalf("%s: %d %q %s", path, w.Code, policy, w.Body)
		}
		nonces[nonce[1]] = true
		if !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		for name, want := range map[string]string{"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "Permissions-Policy": "camera=()"} {
			if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	if len(nonces) != 4 {
		t.Errorf("%d nonces in 4 responses", len(nonces))
	}
	if w := b.visit(t, "GET", "/portal", ""); w.Code != 302 || w.Header().Get("Location") != "/portal/" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestPortalAssets(t *testing.T) {
	t.Parallel()

	b := setup(t, withPortal)
	tags := map[string]bool{}
	for accepted, want := range map[string][2]string{
		"":                        {"plain", ""},
		"gzip":                    {"gzipped", "gzip"},
		"gzip, deflate, br":       {"brotli", "br"},
		"br;q=0, GZIP;q=0.5":      {"gzipped", "gzip"},
		"br;q=0.0, gzip;q=0":      {"plain", ""},
		"identity, brotli, gzipx": {"plain", ""},
	} {
		w := b.visit(t, "GET", "/portal/assets/a-1.js", "", header("Accept-Encoding", accepted))
		h := w.Header()
		if w.Code != 200 || w.Body.String() != want[0] || h.Get("Content-Encoding") != want[1] || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") {
			t.Errorf("%q: %d %v %s", accepted, w.Code, h, w.Body)
		}
		if h.Get("Cache-Control") != "public, max-age=31536000, immutable" || h.Get("Vary") != "Accept-Encoding" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: %v", accepted, h)
		}
		tags[h.Get("ETag")] = true
		if w := b.visit(t, "GET", "/portal/assets/a-1.js", "", header("Accept-Encoding", accepted), header("If-None-Match", h.Get("ETag"))); w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("%q: %d with the tag %s", accepted, w.Code, h.Get("ETag"))
		}
	}
	if len(tags) != 3 {
		t.Errorf("tags of three codings: %v", tags)
	}
	for _, path := range []string{"/portal/assets/a-2.js", "/portal/assets/", "/portal/assets/../index.html"} {
		if w := b.visit(t, "GET", path, ""); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The portal covers the home page of a user, who reaches it again without scripts.
func TestHomeLeadsToThePortal(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords, withPortal)
	in := with(b.signIn(tokenOwner))
	if w := b.visit(t, "GET", "/", "", in); w.Code != 302 || w.Header().Get("Location") != "/portal/" {
		t.Errorf("signed in: %d %v", w.Code, w.Header())
	}
	if w := b.visit(t, "GET", "/?script=off", "", in); w.Code != 200 || !strings.Contains(w.Body.String(), "You are <strong>owner</strong>") {
		t.Errorf("without scripts: %d %s", w.Code, w.Body)
	}
	if w := b.visit(t, "GET", "/", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "You are not signed in") {
		t.Errorf("signed out: %d %s", w.Code, w.Body)
	}
	if w := b.visit(t, "GET", "/?to=billing", "", in); w.Code != 302 || w.Header().Get("Location") != "/portal/billing" {
		t.Errorf("to billing: %d %v", w.Code, w.Header())
	}
	if w := b.visit(t, "GET", "/?to=//evil.example", "", in); w.Header().Get("Location") != "/portal/" {
		t.Errorf("to another site: %d %v", w.Code, w.Header())
	}
	off := setup(t, passwords)
	if w := off.visit(t, "GET", "/portal/", ""); w.Code != 404 {
		t.Errorf("without the portal: %d", w.Code)
	}
}

// The payment provider sends the browser to a page, which the portal covers.
func TestAPaymentReturnsToThePortal(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords, withPortal)
	path := payment.PagePath + paidSession.String()
	if w := b.visit(t, "GET", path+"?cancelled", ""); w.Code != 302 || w.Header().Get("Location") != "/portal"+path+"?cancelled" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := b.visit(t, "GET", path+"?script=off", "", with(b.signIn(tokenOwner))); w.Code != 200 || !strings.Contains(w.Body.String(), "EUR 50.00") {
		t.Errorf("without scripts: %d %s", w.Code, w.Body)
	}
}

func TestUnbuiltPortalNamesTheCommand(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords, func(_ *fixture, c *rest.Config) { c.Portal, _ = web.PortalOf(fstest.MapFS{}) })
	if w := b.visit(t, "GET", "/", "", with(b.signIn(tokenOwner))); w.Code != 200 {
		t.Errorf("home leads to a portal that is not built: %d %v", w.Code, w.Header())
	}
	w := b.visit(t, "GET", "/portal/", "")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "make portal build") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
