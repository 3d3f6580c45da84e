package rest_test

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// INV-59, as it is met from outside: of all that is no token, nothing passes the
// API, and each gets its code.
func TestINV59HostileTokensAreRejected(t *testing.T) {
	t.Parallel()

	issuer := oidctest.Start(t)
	b := setup(t, ticking)
	b.services.SignIn.Provider = oidc.New(oidc.Config{Issuer: issuer.URL, ClientID: "gpuaas", CLIClientID: "gpuaas-cli", Audience: issuer.Audience})
	good := call{method: "GET", path: "/api/v1/skus"}
	good.token = issuer.Token("ES256", oidctest.P256, nil, nil)
	if w := b.do(t, good); w.Code != 404 || problem(t, w).Code != "user_not_found" {
		t.Errorf("a good token of an unknown user: %d %s", w.Code, w.Body)
	}
	if _, err := b.services.SignIn.SignInUser(t.Context(), signin.Verified{Issuer: issuer.URL, Subject: "subject-1", Email: "a@example.org", EmailVerified: true}, signin.Origin{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range issuer.Good() {
		if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: c.Token}); w.Code != 200 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for name, c := range issuer.Hostile() {
		want, code := 401, string(c.Code)
		switch {
		case strings.TrimSpace(c.Token) != c.Token: // HTTP removes the space around a header's value
			continue
		case len(c.Token) > 64<<10:
			want, code = 431, "header_too_large"
		}
		w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: c.Token})
		if w.Code != want || string(problem(t, w).Code) != code {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
