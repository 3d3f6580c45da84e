package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

type bundle struct {
	*oidc.Provider

	issuer *oidctest.Issuer
	now    atomic.Int64 // seconds that have passed
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{issuer: oidctest.Start(t)}
	b.Provider = b.fresh()
	return b
}

// fresh returns the provider of another process, without cached documents.
func (b *bundle) fresh() *oidc.Provider {
	start := time.Now()
	return oidc.New(oidc.Config{
		Issuer: b.issuer.URL, ClientID: "gpuaas", CLIClientID: "gpuaas-cli", Audience: b.issuer.Audience, RolesClaim: "realm_access.roles",
		Roles: map[string]string{"gpuaas-admin": "admin", "gpuaas-operator": "operator", "gpuaas-billing-operator": "billing_operator"},
		Clock: clock.At(func() time.Time { return start.Add(time.Duration(b.now.Load()) * time.Second) }),
	})
}

func TestINV59HostileTokensAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hostile := b.issuer.Hostile()
	if len(hostile) < 40 {
		t.Fatalf("only %d hostile tokens", len(hostile))
	}
	accepted := 0
	for name, c := range hostile {
		v, err := b.Verify(t.Context(), c.Token)
		if err == nil {
			accepted++
			t.Errorf("%s: accepted as %+v", name, v)
		} else if errs.CodeOf(err) != c.Code {
			t.Errorf("%s: %v, want %s", name, err, c.Code)
		}
	}
	t.Logf("%d hostile tokens, %d accepted", len(hostile), accepted)
}

func TestINV59GoodTokensAreAccepted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range b.issuer.Good() {
		v, err := b.Verify(t.Context(), c.Token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := signin.Verified{
			Issuer: b.issuer.URL, Subject: "subject-1", Email: "dev@dev.localhost", EmailVerified: true, Role: "operator", MapsRoles: true, Until: v.Until,
		}
		if v != want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestRoleIsTheHighestThatTheProfileNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		roles any
		want  string
	}{
		"none":      {[]string{}, "user"},
		"unknown":   {[]string{"admin", "GPUAAS-ADMIN"}, "user"},
		"several":   {[]string{"gpuaas-billing-operator", "gpuaas-admin", "gpuaas-operator"}, "admin"},
		"no list":   {"gpuaas-admin", "user"},
		"no texts":  {[]any{1, true, nil}, "user"},
		"one of it": {[]any{1, "gpuaas-billing-operator"}, "billing_operator"},
	} {
		v, err := b.Verify(t.Context(), b.issuer.Token("RS256", oidctest.RSA, nil, oidctest.Object{"realm_access": oidctest.Object{"roles": c.roles}}))
		if err != nil || v.Role != c.want {
			t.Errorf("%s: %q, %v", name, v.Role, err)
		}
	}
}

// all verifies the token in many goroutines at once and counts the failures.
func (b *bundle) all(t *testing.T, p *oidc.Provider, token string) (refused int64) {
	t.Helper()
	var wg sync.WaitGroup
	var no atomic.Int64
	for range 50 {
		wg.Go(func() {
			for range 4 {
				if _, err := p.Verify(t.Context(), token); err != nil {
					no.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return no.Load()
}

func TestRotationRejectsNoToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.issuer.Publish(b.issuer.Public(oidctest.RSA, "", "sig"))
	if n := b.all(t, b.Provider, b.issuer.Token("RS256", oidctest.RSA, nil, nil)); n != 0 {
		t.Fatalf("%d rejected before any rotation", n)
	}
	before, err := b.Keys(t.Context())
	if err != nil || b.issuer.Requests() != 1 {
		t.Fatalf("requested %d times, %v", b.issuer.Requests(), err)
	}
	b.issuer.Publish(b.issuer.Public(oidctest.RSA, "", "sig"), b.issuer.Public(oidctest.P256, "", "sig"))
	if n := b.all(t, b.Provider, b.issuer.Token("ES256", oidctest.P256, nil, nil)); n != 0 {
		t.Errorf("%d rejected with the new key", n)
	}
	if n := b.all(t, b.Provider, b.issuer.Token("RS256", oidctest.RSA, nil, nil)); n != 0 {
		t.Errorf("%d rejected with the old key", n)
	}
	if b.issuer.Requests() != 2 {
		t.Errorf("requested %d times, want twice", b.issuer.Requests())
	}
	if after, err := b.Keys(t.Context()); err != nil || after == before {
		t.Errorf("the keys have the same fingerprint, %v", err)
	}
}

func TestUnknownKeysCannotFloodTheProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	forged := b.issuer.Token("RS256", oidctest.Foreign, nil, nil)
	for range 3 {
		b.all(t, b.Provider, forged)
	}
	if n := b.issuer.Requests(); n != 2 { // the first fetch, and one for want of the key
		t.Errorf("requested %d times", n)
	}
	b.now.Add(10)
	b.all(t, b.Provider, forged)
	if n := b.issuer.Requests(); n != 3 {
		t.Errorf("requested %d times after the interval", n)
	}
}

func TestKeysOutliveTheProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := b.issuer.Token("RS256", oidctest.RSA, nil, oidctest.Object{"exp": b.issuer.Now().Unix() + 7200})
	if _, err := b.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	b.issuer.Break(true)
	for range 20 { // well past the five minutes, with failing fetches in between
		b.now.Add(60)
		if _, err := b.Verify(t.Context(), good); err != nil {
			t.Fatalf("after %d s: %v", b.now.Load(), err)
		}
	}
	_, err := b.fresh().Verify(t.Context(), good)
	if errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("one that never had keys: %v", err)
	}
	if _, err := b.fresh().Verify(t.Context(), "a.b.c"); errs.CodeOf(err) != errs.TokenInvalid {
		t.Errorf("garbage while it is away: %v", err)
	}
}

func TestWithdrawnKeyExpiresSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := b.issuer.Token("RS256", oidctest.RSA, nil, oidctest.Object{"exp": b.issuer.Now().Unix() + 7200})
	if _, err := b.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	b.issuer.Publish(b.issuer.Public(oidctest.P256, "", "sig"))
	b.now.Add(299)
	if _, err := b.Verify(t.Context(), good); err != nil {
		t.Errorf("within five minutes: %v", err)
	}
	b.now.Add(1)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := b.Verify(t.Context(), good) // the first one starts the fetch and does not wait for it
		if errs.CodeOf(err) == errs.TokenInvalid {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still accepted: %v", err)
		}
	}
}

// A provider that is broken or bought cannot send us elsewhere or fill our memory.
func TestProviderIsHeldShort(t *testing.T) {
	t.Parallel()
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached an address that only the provider named") }))
	t.Cleanup(inner.Close)
	for name, keys := range map[string]http.HandlerFunc{
		"a redirect to another server": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner.URL, http.StatusFound) },
		"an answer without an end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":["` + strings.Repeat("x", 1<<20) + `"]}`))
		},
		"no key that can be used": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"eA"}]}`))
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
	} {
		var server *httptest.Server
		server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				keys(w, r)
				return
			}
			_, _ = w.Write([]byte(`{"issuer":"` + server.URL + `","jwks_uri":"` + server.URL + `/keys"}`))
		}))
		t.Cleanup(server.Close)
		p := oidc.New(oidc.Config{Issuer: server.URL})
		if _, err := p.Keys(t.Context()); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
