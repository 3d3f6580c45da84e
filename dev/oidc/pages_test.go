package oidc_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

func TestForeignPagesAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := b.cli.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	for name, change := range map[string]func(*http.Request){
		"another host name": func(r *http.Request) { r.Host = "evil.example" },
		"another origin":    func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"cross-site":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, _ := b.redirect(t, ask)
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

func (b *bundle) redirect(t *testing.T, to string) (at *url.URL, page string) {
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

func TestTheLoginPageShowsThePeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, page := b.redirect(t, b.cli.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	for _, want := range []string{dev, "other@dev.localhost", "boss", "cli"} {
		if !strings.Contains(page, want) {
			t.Errorf("the login page does not show %s", want)
		}
	}
	if got := strings.Split(b.provider.Endpoint().DeviceAuthURL, "/"); !slices.Contains(got, "device_authorization") {
		t.Errorf("discovery names %v", got)
	}
}
