package oidc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	dev      = "dev@dev.localhost"
	web      = "web"
	cli      = "cli"
	hush     = "hush"
	redirect = "http://127.0.0.1:8080/auth/callback"
	loopback = "http://127.0.0.1:41234/callback"
	audience = "the-api"
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
			{ID: web, Secret: hush, Redirects: []string{redirect}},
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
	b := &bundle{Issuer: i, provider: provider, web: i.Config(web, hush, redirect), cli: i.Config(cli, "", loopback)}
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

// refused expects the provider's response with that error code.
func refused(t *testing.T, err error, code string) {
	t.Helper()
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.ErrorCode != code {
		t.Errorf("%v, want %s", err, code)
	}
}

func (b *bundle) refresh(t *testing.T, c *oauth2.Config, token string) (*oauth2.Token, error) {
	t.Helper()
	return c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token}).Token()
}

func TestCodeWithPKCE(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]*oauth2.Config{web: b.web, cli: b.cli} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verifier := oauth2.GenerateVerifier()
			back := oidctest.SignIn(t, c.AuthCodeURL("s1", oauth2.S256ChallengeOption(verifier), oidc.Nonce("n1")), dev)
			if got := back.Query(); got.Get("state") != "s1" || got.Get("iss") != b.URL || !strings.HasPrefix(back.String(), c.RedirectURL) {
				t.Fatalf("sent back to %s", back)
			}
			token, err := c.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
			if err != nil {
				t.Fatal(err)
			}
			said, err := b.provider.Verifier(&oidc.Config{ClientID: name}).Verify(t.Context(), idToken(t, token))
			if err != nil {
				t.Fatal(err)
			}
			if said.Subject != dev || said.Nonce != "n1" || said.VerifyAccessToken(token.AccessToken) != nil {
				t.Errorf("%+v", said)
			}
			info, err := b.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
			if err != nil || info.Email != dev || !info.EmailVerified {
				t.Errorf("%+v, %v", info, err)
			}
		})
	}
}

// The access token is for the API and contains the roles; the ID token is for the client alone. A
// verifier must be able to distinguish them.
func TestAccessAndIDTokensDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.Tokens(t, b.web, dev, "n")
	access, id := part(t, token.AccessToken, 1), part(t, idToken(t, token), 1)
	if got := part(t, token.AccessToken, 0); got["typ"] != "at+jwt" || got["alg"] != "RS256" || got["kid"] == "" {
		t.Errorf("header of the access token: %v", got)
	}
	for claim, want := range map[string][2]any{
		"iss": {b.URL, b.URL}, "sub": {dev, dev}, "azp": {web, web}, "typ": {"Bearer", "ID"}, "nonce": {nil, "n"},
		"email": {dev, dev}, "preferred_username": {dev, dev}, "email_verified": {true, true},
	} {
		if access[claim] != want[0] || id[claim] != want[1] {
			t.Errorf("%s: access token %v, ID token %v, want %v", claim, access[claim], id[claim], want)
		}
	}
	for name, c := range map[string]struct {
		claims map[string]any
		aud    string
	}{"access": {access, audience}, "id": {id, web}} {
		if aud, ok := c.claims["aud"].([]any); !ok || len(aud) != 1 || aud[0] != c.aud {
			t.Errorf("%s: aud %v, want %s alone", name, c.claims["aud"], c.aud)
		}
		realm, _ := c.claims["realm_access"].(map[string]any)
		if got, ok := realm["roles"].([]any); !ok || len(got) != 1 || got[0] != "boss" {
			t.Errorf("%s: realm_access %v", name, c.claims["realm_access"])
		}
	}
	if access["jti"] == "" || access["jti"] == id["jti"] {
		t.Errorf("jti %v and %v", access["jti"], id["jti"])
	}
	for _, as := range []string{web, audience} {
		if _, err := b.provider.Verifier(&oidc.Config{ClientID: as}).Verify(t.Context(), map[string]string{web: token.AccessToken, audience: idToken(t, token)}[as]); err == nil {
			t.Errorf("the wrong token passes as one for %s", as)
		}
	}
}

// A code that was rejected once cannot be used again.
func TestCodesAreBurned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := *b.web
	other.RedirectURL = "http://127.0.0.1:8080/elsewhere"
	for name, c := range map[string]struct {
		by    *oauth2.Config
		right bool // the verifier
	}{
		"wrong verifier":   {b.web, false},
		"another redirect": {&other, true},
		"another client":   {b.cli, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verifier := oauth2.GenerateVerifier()
			right := oauth2.VerifierOption(verifier)
			how := right
			if !c.right {
				how = oauth2.VerifierOption(oauth2.GenerateVerifier())
			}
			code := oidctest.SignIn(t, b.web.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), dev).Query().Get("code")
			_, err := c.by.Exchange(t.Context(), code, how)
			refused(t, err, "invalid_grant")
			_, err = b.web.Exchange(t.Context(), code, right)
			refused(t, err, "invalid_grant")
		})
	}
}

func TestOldCode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verifier := oauth2.GenerateVerifier()
	code := oidctest.SignIn(t, b.web.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), dev).Query().Get("code")
	b.wait(2 * time.Minute)
	_, err := b.web.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	refused(t, err, "invalid_grant")
}

// The second use of a code may be by its owner after a thief, so the tokens of the first use end.
func TestCodeTwiceEndsItsTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verifier := oauth2.GenerateVerifier()
	code := oidctest.SignIn(t, b.web.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), dev).Query().Get("code")
	first, err := b.web.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.web.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	refused(t, err, "invalid_grant")
	_, err = b.refresh(t, b.web, first.RefreshToken)
	refused(t, err, "invalid_grant")
}

// A wrong secret is no use of the code.
func TestWrongSecretBurnsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verifier := oauth2.GenerateVerifier()
	code := oidctest.SignIn(t, b.web.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), dev).Query().Get("code")
	wrong := *b.web
	wrong.ClientSecret = "no"
	_, err := wrong.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	refused(t, err, "invalid_client")
	if _, err := b.web.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err != nil {
		t.Error(err)
	}
}

func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.Tokens(t, b.cli, dev, "n")
	b.SetPeople([]devoidc.Person{{Subject: dev, Email: dev, Name: "Dev", Roles: []string{"boss", "more"}}})
	b.wait(time.Minute)
	second, err := b.refresh(t, b.cli, first.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
		t.Error("the tokens did not change")
	}
	realm, _ := part(t, second.AccessToken, 1)["realm_access"].(map[string]any)
	if got, ok := realm["roles"].([]any); !ok || len(got) != 2 {
		t.Errorf("roles %v, want those that the person has now", realm)
	}
	// The first one again: it was copied, and by whom cannot be known.
	_, err = b.refresh(t, b.cli, first.RefreshToken)
	refused(t, err, "invalid_grant")
	_, err = b.refresh(t, b.cli, second.RefreshToken)
	refused(t, err, "invalid_grant")
}

func TestRefreshIsRejected(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *bundle, *oauth2.Token) *oauth2.Config{
		"revoked": func(t *testing.T, b *bundle, token *oauth2.Token) *oauth2.Config {
			t.Helper()
			b.revoke(t, token.RefreshToken)
			return b.cli
		},
		"of another client": func(_ *testing.T, b *bundle, _ *oauth2.Token) *oauth2.Config { return b.web },
		"too old": func(_ *testing.T, b *bundle, _ *oauth2.Token) *oauth2.Config {
			b.wait(31 * 24 * time.Hour)
			return b.cli
		},
		"of a deleted user": func(_ *testing.T, b *bundle, _ *oauth2.Token) *oauth2.Config {
			b.SetPeople(nil)
			return b.cli
		},
		"signed out": func(t *testing.T, b *bundle, token *oauth2.Token) *oauth2.Config {
			t.Helper()
			b.get(t, "/end_session?id_token_hint="+idToken(t, token))
			return b.cli
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			token := b.Tokens(t, b.cli, dev, "n")
			_, err := b.refresh(t, spoil(t, b, token), token.RefreshToken)
			refused(t, err, "invalid_grant")
		})
	}
}

func (b *bundle) revoke(t *testing.T, token string) {
	t.Helper()
	answer, err := http.PostForm(b.URL+"/revoke", url.Values{"token": {token}, "client_id": {cli}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("revoking: %d", answer.StatusCode)
	}
}

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

func TestRevocation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.Tokens(t, b.cli, dev, "n")
	b.revoke(t, "never heard of") // ended already: 200
	b.revoke(t, token.AccessToken)
	if _, err := b.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token)); err == nil {
		t.Error("a revoked access token is still answered")
	}
	foreign := b.Tokens(t, b.web, dev, "n")
	b.revoke(t, foreign.RefreshToken) // by a client that it was not given to
	if _, err := b.refresh(t, b.web, foreign.RefreshToken); err != nil {
		t.Errorf("another client revoked the token: %v", err)
	}
}

func TestDeviceFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, err := b.cli.DeviceAuth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pending := b.poll(t, begun.DeviceCode); pending != "authorization_pending" {
		t.Errorf("before anybody approved: %s", pending)
	}
	if _, page := b.get(t, "/device?user_code=NOPE-NOPE"); !strings.Contains(page, "No device waits") {
		t.Errorf("an unknown code: %s", page)
	}
	oidctest.Approve(t, begun.VerificationURIComplete, dev)
	token, err := b.cli.DeviceAccessToken(t.Context(), begun)
	if err != nil {
		t.Fatal(err)
	}
	if part(t, token.AccessToken, 1)["sub"] != dev || token.RefreshToken == "" {
		t.Errorf("%+v", token)
	}
	if again := b.poll(t, begun.DeviceCode); again != "invalid_grant" {
		t.Errorf("the same device code again: %s", again)
	}
}

func TestDeviceIsRejected(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*testing.T, *bundle, *oauth2.DeviceAuthResponse){
		"access_denied": func(t *testing.T, _ *bundle, d *oauth2.DeviceAuthResponse) {
			t.Helper()
			oidctest.Approve(t, d.VerificationURIComplete, "")
		},
		"expired_token": func(_ *testing.T, b *bundle, _ *oauth2.DeviceAuthResponse) { b.wait(11 * time.Minute) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			begun, err := b.cli.DeviceAuth(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, b, begun)
			if got := b.poll(t, begun.DeviceCode); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	b := setup(t)
	_, err := b.web.DeviceAuth(t.Context())
	if err == nil {
		t.Error("a client without the device flow may use it")
	}
}

// poll sends one request and returns the error.
func (b *bundle) poll(t *testing.T, device string) string {
	t.Helper()
	answer, err := http.PostForm(b.URL+"/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}, "client_id": {cli},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Error
}

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
		t.Errorf("the keys were asked for %d times, want 4", n)
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
func TestForeignPagesAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := b.cli.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	for name, change := range map[string]func(*http.Request){
		"another host":   func(r *http.Request) { r.Host = "evil.example" },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"cross-site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, _ := b.follow(t, ask)
			form := url.Values{"request": {shown.Query().Get("request")}, "person": {dev}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/login", strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			change(r)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("answered %d", answer.StatusCode)
			}
		})
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ask, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("the login page under another name: %d", answer.StatusCode)
	}
}

func (b *bundle) follow(t *testing.T, to string) (at *url.URL, page string) {
	t.Helper()
	answer, page := b.get(t, strings.TrimPrefix(to, b.URL))
	return answer.Request.URL, page
}

func TestAuthorizeRejects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	challenge := oauth2.S256ChallengeOption(oauth2.GenerateVerifier())
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	elsewhere, outside := *b.web, *b.cli
	elsewhere.RedirectURL = "http://127.0.0.1:8080/elsewhere"
	outside.RedirectURL = "http://evil.example/callback"
	unknown := *b.cli
	unknown.ClientID = "unknown"
	for name, c := range map[string]struct {
		url  string
		want string // the error that the client receives; empty: the user sees it
	}{
		"no PKCE":                  {b.web.AuthCodeURL("s"), "invalid_request"},
		"plain PKCE":               {b.web.AuthCodeURL("s", oauth2.SetAuthURLParam("code_challenge", "x"), oauth2.SetAuthURLParam("code_challenge_method", "plain")), "invalid_request"},
		"no page":                  {b.web.AuthCodeURL("s", challenge, oauth2.SetAuthURLParam("prompt", "none")), "login_required"},
		"a redirect elsewhere":     {elsewhere.AuthCodeURL("s", challenge), ""},
		"a redirect outside":       {outside.AuthCodeURL("s", challenge), ""},
		"an unknown client":        {unknown.AuthCodeURL("s", challenge), ""},
		"tokens in the redirect":   {b.web.AuthCodeURL("s", challenge, oauth2.SetAuthURLParam("response_type", "id_token")), ""},
		"a request in a parameter": {b.web.AuthCodeURL("s", challenge, oauth2.SetAuthURLParam("request", "e30.e30.")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := still.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			back, err := answer.Location()
			switch {
			case c.want == "" && (err == nil || answer.StatusCode != http.StatusBadRequest):
				t.Errorf("%d, sent to %v", answer.StatusCode, back)
			case c.want != "" && (err != nil || back.Query().Get("error") != c.want || back.Query().Get("state") != "s"):
				t.Errorf("%d, sent to %v, want %s", answer.StatusCode, back, c.want)
			}
		})
	}
}

// After signing out, a link must not lead people elsewhere.
func TestEndSessionGoesBackToTheClientAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := idToken(t, b.Tokens(t, b.web, dev, "n"))
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for to, want := range map[string]string{
		"http://127.0.0.1:8080/bye": "http://127.0.0.1:8080/bye?state=s",
		"http://evil.example/bye":   b.URL + "/signed-out",
	} {
		q := url.Values{"id_token_hint": {token}, "post_logout_redirect_uri": {to}, "state": {"s"}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+"/end_session?"+q.Encode(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := still.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Location"); got != want {
			t.Errorf("%s: sent to %s, want %s", to, got, want)
		}
	}
}

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

func TestTheLoginPageShowsThePeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, page := b.follow(t, b.cli.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	for _, want := range []string{dev, "other@dev.localhost", "boss", "cli"} {
		if !strings.Contains(page, want) {
			t.Errorf("the login page does not show %s", want)
		}
	}
	if got := strings.Split(b.provider.Endpoint().DeviceAuthURL, "/"); !slices.Contains(got, "device_authorization") {
		t.Errorf("discovery names %v", got)
	}
}
