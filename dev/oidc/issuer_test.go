package oidc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	devoidc "github.com/gpuaas/gpuaas/dev/oidc"
	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	dev          = "dev@dev.localhost"
	web          = "web"
	cli          = "cli"
	confidential = "hush"
	redirect     = "http://127.0.0.1:8080/auth/callback"
	loopback     = "http://127.0.0.1:41234/callback"
	audience     = "the-api"
)

type bundle struct {
	*oidctest.Issuer

	provider *oidc.Provider
	web, cli *oauth2.Config
	wait     func(time.Duration) // moves the issuer's clock
}

func setup(t *testing.T) *bundle {
	t.Helper()
	var mu sync.Mutex
	var ahead time.Duration
	i := oidctest.Start(t, devoidc.Config{
		Audience: audience,
		Clients: []devoidc.Client{
			{ID: web, Secret: confidential, Redirects: []string{redirect}},
			{ID: cli, Loopback: true, Device: true},
		},
		People: []devoidc.Person{{Subject: dev, Email: dev, Name: "Dev", Roles: []string{"boss"}}, {Subject: "other", Email: "other@dev.localhost", Name: "Other"}},
		Clock: clock.At(func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}),
	})
	provider, err := oidc.NewProvider(t.Context(), i.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{Issuer: i, provider: provider, web: i.Config(web, confidential, redirect), cli: i.Config(cli, "", loopback)}
	b.web.Endpoint, b.cli.Endpoint = provider.Endpoint(), provider.Endpoint()
	b.web.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	b.cli.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	b.wait = func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ahead += d
	}
	return b
}

// part decodes the nth part of a JWT.

func part(t *testing.T, token string, n int) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[n])
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	return said
}

func idToken(t *testing.T, from *oauth2.Token) string {
	t.Helper()
	text, _ := from.Extra("id_token").(string)
	if text == "" {
		t.Fatal("no ID token")
	}
	return text
}

// wantError expects the provider's response with that error code.

func wantError(t *testing.T, err error, code string) {
	t.Helper()
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.ErrorCode != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// The access token is for the API and contains the roles; the ID token is for the client alone. A

// verifier must be able to distinguish them.

// A code that was rejected once cannot be used again.

// The second use of a code may be by its owner after a thief, so the tokens of the first use end.

// A wrong secret is no use of the code.

func (b *bundle) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	answer, err := http.Get(b.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// poll sends one request and returns the error.

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verify := func(token *oauth2.Token) error {
		// A fresh provider: what it has cached is not what is tested here.
		provider, err := oidc.NewProvider(t.Context(), b.URL)
		if err != nil {
			return err
		}
		_, err = provider.Verifier(&oidc.Config{ClientID: cli}).Verify(t.Context(), idToken(t, token))
		return err
	}
	old := b.Tokens(t, b.cli, dev, "n")
	if err := b.Rotate(); err != nil {
		t.Fatal(err)
	}
	fresh := b.Tokens(t, b.cli, dev, "n")
	if part(t, old.AccessToken, 0)["kid"] == part(t, fresh.AccessToken, 0)["kid"] {
		t.Error("the new key does not sign")
	}
	if err := errors.Join(verify(old), verify(fresh)); err != nil {
		t.Errorf("after rotating: %v", err)
	}
	b.DropOldKeys()
	if verify(old) == nil {
		t.Error("a token of a dropped key is still trusted")
	}
	if err := verify(fresh); err != nil {
		t.Errorf("after dropping: %v", err)
	}
	if n := b.JWKSRequests(); n != 4 {
		t.Errorf("the keys were requested %d times, want 4", n)
	}
	b.Break(true)
	for _, path := range []string{"/keys", "/.well-known/openid-configuration"} {
		if answer, _ := b.get(t, path); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s while broken: %d", path, answer.StatusCode)
		}
	}
	b.Break(false)
	if err := verify(fresh); err != nil {
		t.Errorf("after healing: %v", err)
	}
}

// A foreign page must not sign anybody in: not by a name of its own that leads

// here, not by a form.

// After signing out, a link must not lead people elsewhere.

// Every replica of a client may sign in at once.

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.Tokens(t, b.cli, dev, "n")
	var mu sync.Mutex
	var won []*oauth2.Token
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := b.cli.TokenSource(context.WithoutCancel(t.Context()), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, got)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 8 got tokens for one refresh token", len(won))
	}
}

func TestNewRejectsOtherHosts(t *testing.T) {
	t.Parallel()
	for at, allowed := range map[string]bool{
		"http://127.0.0.1:1": true, "http://localhost:1/realms/x": true, "http://[::1]:1": true,
		"http://192.0.2.1:1": false, "https://id.example": false, "": false,
	} {
		if _, err := devoidc.New(devoidc.Config{Issuer: at}); (err == nil) != allowed {
			t.Errorf("%q: %v", at, err)
		}
	}
}
