package oidc_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	devoidc "github.com/gpuaas/gpuaas/dev/oidc"
	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	issuertest "github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

const redirect = "http://127.0.0.1:1/auth/callback"

// flow is a provider of ours that speaks with a running issuer.
func flow(t *testing.T, secret string) (*oidc.Provider, *oidctest.Issuer) {
	t.Helper()
	at := oidctest.Start(t, devoidc.Config{
		Audience: "gpuaas-api",
		Clients:  []devoidc.Client{{ID: "gpuaas", Secret: secret, Redirects: []string{redirect}}, {ID: "gpuaas-cli", Loopback: true, Device: true}},
		People:   []devoidc.Person{{Subject: "s-1", Email: "Dev@dev.localhost", Name: "Dev", Roles: []string{"gpuaas-admin"}}},
	})
	return oidc.New(oidc.Config{
		Issuer: at.URL, ClientID: "gpuaas", ClientSecret: secret, CLIClientID: "gpuaas-cli", Audience: "gpuaas-api",
		RolesClaim: "realm_access.roles", Roles: map[string]string{"gpuaas-admin": "admin"},
	}), at
}

func TestCodeBecomesAPerson(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{"a public client": "", "a client with a secret": "s3cr3t/+&="} {
		p, _ := flow(t, secret)
		to, err := p.AuthCodeURL(t.Context(), redirect, "state", "nonce", "verifier-verifier-verifier-verifier-verifier-1", signin.Again{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back := oidctest.SignIn(t, to, "s-1")
		if back.Query().Get("state") != "state" {
			t.Errorf("%s: back at %s", name, back)
		}
		code := back.Query().Get("code")
		g, err := p.Exchange(t.Context(), redirect, code, "nonce", "verifier-verifier-verifier-verifier-verifier-1")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v := g.Verified
		if v.SignIn.At.IsZero() || v.SignIn.Methods != "1 pwd" {
			t.Errorf("%s: signed in %+v", name, v.SignIn)
		}
		v.Until, v.SignIn = time.Time{}, identity.SignIn{}
		want := signin.Verified{Issuer: p.Issuer(), Subject: "s-1", Email: "dev@dev.localhost", EmailVerified: true, Name: "Dev", Role: "admin", MapsRoles: true}
		if v != want || g.Refresh == "" || g.Access == "" {
			t.Errorf("%s: %+v", name, g)
		}
		again, err := p.Refresh(t.Context(), g.Refresh, false)
		if err != nil || again.Verified.Subject != "s-1" {
			t.Fatalf("%s: refreshing: %+v, %v", name, again, err)
		}
		if err := p.Revoke(t.Context(), again.Refresh, false); err != nil {
			t.Errorf("%s: revoking: %v", name, err)
		}
		if _, err := p.Refresh(t.Context(), again.Refresh, false); errs.CodeOf(err) != errs.TokenInvalid {
			t.Errorf("%s: refreshing what is revoked: %v", name, err)
		}
		if _, err := p.Exchange(t.Context(), redirect, code, "nonce", "verifier-verifier-verifier-verifier-verifier-1"); errs.CodeOf(err) != errs.OIDCExchangeFailed {
			t.Errorf("%s: the code once more: %v", name, err)
		}
	}
}

// A provider states when and how a user has signed in. Values that would pass for this installation's own, and
// times after the token, are ignored.
func TestSignInsHaveATimeAndMethods(t *testing.T) {
	t.Parallel()
	p, _ := flow(t, "secret")
	to, err := p.AuthCodeURL(t.Context(), redirect, "state", "nonce", "verifier-verifier-verifier-verifier-verifier-1", signin.Again{StepUp: true, ACR: "urn:2fa urn:hw"})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	if q := at.Query(); q.Get("prompt") != "login" || q.Get("max_age") != "0" || q.Get("acr_values") != "urn:2fa urn:hw" {
		t.Errorf("requests %v", q)
	}
	g, err := p.Exchange(t.Context(), redirect, oidctest.SignIn(t, to, "s-1").Query().Get("code"), "nonce", "verifier-verifier-verifier-verifier-verifier-1")
	if err != nil || g.Verified.SignIn.Methods != "urn:2fa pwd otp" || g.Verified.SignedInSince(time.Now()) != nil {
		t.Errorf("%+v, %v", g.Verified.SignIn, err)
	}
	if err := g.Verified.SignedInSince(time.Now().Add(time.Hour)); errs.CodeOf(err) != errs.LoginFailed {
		t.Errorf("a sign-in from before the request: %v", err)
	}
	access, err := p.Verify(t.Context(), g.Access)
	if err != nil || access.SignIn != g.Verified.SignIn {
		t.Errorf("the access token: %+v, %v", access.SignIn, err)
	}
	b := setup(t)
	for name, claims := range map[string]issuertest.Object{
		"a later time":        {"auth_time": b.issuer.Now().Unix() + 3600},
		"no number":           {"auth_time": "now"},
		"our own method":      {"acr": identity.MethodFirstAdmin, "amr": []string{identity.MethodFirstAdmin}},
		"two in one":          {"acr": "x urn:2fa"},
		"a control character": {"amr": []string{"a\tb", "", strings.Repeat("x", 500)}},
	} {
		v, err := b.Verify(t.Context(), b.issuer.Token("RS256", issuertest.RSA, nil, claims))
		if err != nil || v.SignIn != (identity.SignIn{}) {
			t.Errorf("%s: %+v, %v", name, v.SignIn, err)
		}
	}
}

func TestCodeIsBoundToTheQuestion(t *testing.T) {
	t.Parallel()
	const verifier = "verifier-verifier-verifier-verifier-verifier-1"
	for name, c := range map[string]struct {
		nonce, verifier string
		code            errs.Code
	}{
		"another nonce":    {"other", verifier, errs.TokenInvalid},
		"another verifier": {"nonce", verifier + "2", errs.OIDCExchangeFailed},
	} {
		p, _ := flow(t, "secret")
		to, err := p.AuthCodeURL(t.Context(), redirect, "state", "nonce", verifier, signin.Again{})
		if err != nil {
			t.Fatal(err)
		}
		code := oidctest.SignIn(t, to, "s-1").Query().Get("code")
		if _, err := p.Exchange(t.Context(), redirect, code, c.nonce, c.verifier); errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokensServeTheirPurposeAlone(t *testing.T) {
	t.Parallel()
	p, at := flow(t, "secret")
	program := at.Tokens(t, at.Config("gpuaas-cli", "", "http://127.0.0.1:2/callback"), "s-1", "n")
	server := at.Tokens(t, at.Config("gpuaas", "secret", redirect), "s-1", "n")
	id := func(token interface{ Extra(string) any }) string {
		s, _ := token.Extra("id_token").(string)
		return s
	}
	if v, err := p.Identify(t.Context(), id(program)); err != nil || v.Subject != "s-1" || v.Role != "admin" {
		t.Errorf("the program's ID token: %+v, %v", v, err)
	}
	if _, err := p.Verify(t.Context(), program.AccessToken); err != nil {
		t.Errorf("the program's access token: %v", err)
	}
	for name, raw := range map[string]string{"the server's ID token": id(server), "an access token": program.AccessToken, "a refresh token": program.RefreshToken} {
		if _, err := p.Identify(t.Context(), raw); errs.CodeOf(err) != errs.TokenInvalid {
			t.Errorf("%s identifies a user: %v", name, err)
		}
	}
	for name, raw := range map[string]string{"an ID token": id(program), "a refresh token": program.RefreshToken} {
		if _, err := p.Verify(t.Context(), raw); errs.CodeOf(err) != errs.TokenInvalid {
			t.Errorf("%s gives access: %v", name, err)
		}
	}
}

func TestIssuerRotates(t *testing.T) {
	t.Parallel()
	p, at := flow(t, "secret")
	old := at.Tokens(t, at.Config("gpuaas", "secret", redirect), "s-1", "n").AccessToken
	if _, err := p.Verify(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := at.Rotate(); err != nil {
		t.Fatal(err)
	}
	fresh := at.Tokens(t, at.Config("gpuaas", "secret", redirect), "s-1", "n").AccessToken
	for name, token := range map[string]string{"of the old key": old, "of the new key": fresh} {
		if _, err := p.Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := at.JWKSRequests(); n != 2 {
		t.Errorf("the keys were requested %d times", n)
	}
}
