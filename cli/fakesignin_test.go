package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/api/oapi"
	devoidc "github.com/gpuaas/gpuaas/dev/oidc"
	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
)

const (
	fakeClient   = "the-cli"
	fakePassword = "correct horse battery"
	sessionToken = "gpb_7sJx0Vb1p5m3Qb1x9vXq2oZK3c0m1v5b8n4rT6yUeWg"
)

// provider is the identity provider of the fake installation: a real issuer after a script has
// requested one.
type provider struct {
	url       string
	renewals  int
	passwords bool
}

func (p *provider) start(ts *testscript.TestScript) {
	var i *devoidc.Server
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.ServeHTTP(w, r) }))
	ts.Defer(server.Close)
	p.url = server.URL
	var err error
	i, err = devoidc.New(devoidc.Config{
		Issuer: server.URL, Audience: "the-api", Clients: []devoidc.Client{{ID: fakeClient, Loopback: true, Device: true}},
		People: []devoidc.Person{{Subject: "dev@dev.localhost", Email: "dev@dev.localhost", Name: "Dev"}},
	})
	ts.Check(err)
}

// knows calls the issuer, which also has the revoked tokens.
func (p *provider) knows(ctx context.Context, token string) bool {
	if p.passwords && token == sessionToken {
		return true
	}
	if p.url == "" || strings.Count(token, ".") != 2 {
		return false
	}
	found, err := oidc.NewProvider(ctx, p.url)
	if err != nil {
		return false
	}
	_, err = found.UserInfo(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}))
	return err == nil
}

// answer serves the operations of sign-in, and returns whether this is one.
func (p *provider) answer(f *fake, w http.ResponseWriter, r *http.Request, operation string) bool {
	switch operation {
	case "getSignInOptions":
		o := oapi.SignInOptions{PersonalLogin: p.passwords, Development: true}
		if p.url != "" {
			o.Oidc = &oapi.OidcOptions{Issuer: p.url, CliClientId: fakeClient, Audience: "the-api", Scopes: []string{"openid", "profile", "email", "offline_access"}}
		}
		reply(w, http.StatusOK, o)
	case "exchangeOidc":
		p.exchange(f, w, r)
	case "loginPersonal":
		p.login(f, w, r)
	case "refreshToken":
		p.refresh(f, w, r)
	case "logout":
		p.logout(f, w, r)
	default:
		return false
	}
	return true
}

func body[T any](f *fake, r *http.Request) (read T) {
	if err := json.NewDecoder(r.Body).Decode(&read); err != nil {
		f.t.Errorf("%s: %v", r.URL.Path, err)
	}
	return read
}

func devPerson() oapi.UserSummary {
	return oapi.UserSummary{Id: id(3), Email: "dev@dev.localhost", Name: "Dev", Role: "user"}
}

func (p *provider) exchange(f *fake, w http.ResponseWriter, r *http.Request) {
	asked := body[oapi.ExchangeRequest](f, r)
	found, err := oidc.NewProvider(r.Context(), p.url)
	if err == nil && asked.IdToken != nil {
		_, err = found.Verifier(&oidc.Config{ClientID: fakeClient}).Verify(r.Context(), *asked.IdToken)
	}
	if err != nil || asked.IdToken == nil || r.Header.Get("Authorization") != "" {
		f.problem(w, r, http.StatusUnauthorized, "login_failed", "the ID token is not good", nil)
		return
	}
	reply(w, http.StatusOK, oapi.SignedIn{User: devPerson()})
}

func (p *provider) login(f *fake, w http.ResponseWriter, r *http.Request) {
	asked := body[oapi.PersonalLogin](f, r)
	switch {
	case !p.passwords:
		f.problem(w, r, http.StatusNotFound, "not_found", "there are no passwords here", nil)
	case asked.Password != fakePassword:
		f.problem(w, r, http.StatusUnauthorized, "login_failed", "e-mail or password are not right", nil)
	default:
		token, end := sessionToken, time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		reply(w, http.StatusOK, oapi.SignedIn{User: devPerson(), Token: &token, ExpiresAt: &end})
	}
}

func (p *provider) refresh(f *fake, w http.ResponseWriter, r *http.Request) {
	p.renewals++
	if r.Header.Get("Authorization") != "" {
		f.t.Error("a token was sent to renew it")
	}
	c := (&oidctest.Issuer{URL: p.url}).Config(fakeClient, "", "")
	got, err := c.TokenSource(r.Context(), &oauth2.Token{RefreshToken: *body[oapi.RefreshRequest](f, r).RefreshToken}).Token()
	if _, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		f.problem(w, r, http.StatusUnauthorized, "token_invalid", "the provider denied", nil)
		return
	}
	seconds := int(got.ExpiresIn)
	reply(w, http.StatusOK, oapi.Refreshed{AccessToken: &got.AccessToken, RefreshToken: &got.RefreshToken, ExpiresIn: &seconds})
}

// logout revokes what it is given, as the server does.
func (p *provider) logout(f *fake, w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !p.knows(r.Context(), token) {
		f.problem(w, r, http.StatusUnauthorized, "token_expired", "the token has expired", nil)
		return
	}
	gone := []string{token}
	if asked := body[oapi.RefreshRequest](f, r); asked.RefreshToken != nil {
		gone = append(gone, *asked.RefreshToken)
	}
	for _, one := range gone {
		answer, err := http.PostForm(p.url+"/revoke", url.Values{"token": {one}, "client_id": {fakeClient}})
		if err != nil {
			f.t.Error(err)
			return
		}
		_ = answer.Body.Close()
	}
	w.WriteHeader(http.StatusNoContent)
}

// browse is the browser of the scripts: PERSON signs in and follows the way back.
// With a second argument the answer is another one's first.
func browse() {
	ctx := context.Background()
	back, status, err := oidctest.Choose(ctx, os.Args[1], os.Getenv("PERSON"))
	if err != nil || back == nil && status != http.StatusOK {
		os.Exit(1)
	}
	if back == nil { // a device was let in
		return
	}
	forged := *back
	forged.RawQuery = "code=theirs&state=theirs"
	for _, to := range []string{forged.String(), back.String()} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
		if err != nil {
			os.Exit(1)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			os.Exit(1)
		}
		_ = answer.Body.Close()
		if (answer.StatusCode == http.StatusOK) != (to == back.String()) {
			os.Exit(1)
		}
	}
}

// TestAPageIsNoCommand: what discovery names is opened, so it must be a page.
func TestAPageIsNoCommand(t *testing.T) {
	t.Parallel()
	a := console(t, map[string]string{"BROWSER": "true"})
	open := a.Browser()
	if open == nil {
		t.Skip("there is no command true")
	}
	for at, good := range map[string]bool{"http://127.0.0.1:1/": true, "file:///etc/passwd": false, "--help": false} {
		if err := open(at); (err == nil) != good {
			t.Errorf("%s: %v", at, err)
		}
	}
	if console(t, nil).Browser() != nil {
		t.Error("a browser without a screen")
	}
}
