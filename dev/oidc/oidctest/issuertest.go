// Package oidctest signs in the users of the development OIDC provider in tests.
package oidctest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/dev/oidc"
)

// Issuer is a running one.
type Issuer struct {
	*oidc.Server

	URL string
}

// Start runs an issuer until the test ends; its URL is that of the server.
func Start(t *testing.T, cfg oidc.Config) *Issuer {
	t.Helper()
	started := &Issuer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { started.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	cfg.Issuer, started.URL = server.URL, server.URL
	var err error
	if started.Server, err = oidc.New(cfg); err != nil {
		t.Fatal(err)
	}
	return started
}

// Config returns the x/oauth2 configuration of a client of the issuer.
func (i *Issuer) Config(id, secret, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: id, ClientSecret: secret, RedirectURL: redirect, Scopes: []string{"openid", "profile", "email", "offline_access"},
		Endpoint: oauth2.Endpoint{
			AuthURL: i.URL + "/authorize", TokenURL: i.URL + "/token", DeviceAuthURL: i.URL + "/device_authorization",
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// SignIn opens the authorization URL, chooses the person, and returns where the
// browser is sent with the code.
func SignIn(t *testing.T, authorize, subject string) *url.URL {
	t.Helper()
	back, status := submit(t, authorize, subject)
	if back == nil {
		t.Fatalf("signing in as %s: %d", subject, status)
	}
	return back
}

// Approve opens a device's page, with its code in the URL, and approves the sign-in of a user. An
// empty subject denies it.
func Approve(t *testing.T, verification, subject string) {
	t.Helper()
	if _, status := submit(t, verification, subject); status != http.StatusOK {
		t.Fatalf("approving a device: %d", status)
	}
}

// Tokens signs the person in with code and PKCE.
func (i *Issuer) Tokens(t *testing.T, c *oauth2.Config, subject, nonce string) *oauth2.Token {
	t.Helper()
	verifier := oauth2.GenerateVerifier()
	back := SignIn(t, c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce)), subject)
	token, err := c.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func submit(t *testing.T, page, subject string) (back *url.URL, status int) {
	t.Helper()
	back, status, err := Choose(t.Context(), page, subject)
	if err != nil {
		t.Fatal(err)
	}
	return back, status
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]+)">`)

// Choose reads the form behind a URL and sends it for the person. The redirect
// that answers is not followed: it may lead to a program that is not there.
func Choose(ctx context.Context, page, subject string) (back *url.URL, status int, err error) {
	shown, err := send(ctx, http.DefaultClient, http.MethodGet, page, nil)
	if err != nil {
		return nil, 0, err
	}
	form := url.Values{"person": {subject}}
	for _, field := range hidden.FindAllStringSubmatch(shown.body, -1) {
		form.Set(field[1], field[2])
	}
	if len(form) < 2 {
		return nil, shown.status, fmt.Errorf("no form at %s: %d %s", shown.at, shown.status, shown.body)
	}
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	said, err := send(ctx, still, http.MethodPost, shown.at.Scheme+"://"+shown.at.Host+shown.at.Path, form)
	return said.location, said.status, err
}

type answer struct {
	at, location *url.URL // location: nil without a redirect
	status       int
	body         string
}

func send(ctx context.Context, c *http.Client, method, to string, form url.Values) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	location, none := response.Location()
	if none != nil {
		location = nil
	}
	return answer{response.Request.URL, location, response.StatusCode, string(body)}, err
}
