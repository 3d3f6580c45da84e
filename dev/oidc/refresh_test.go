package oidc_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/oauth2"

	devoidc "github.com/gpuaas/gpuaas/dev/oidc"
)

func (b *bundle) refresh(t *testing.T, c *oauth2.Config, token string) (*oauth2.Token, error) {
	t.Helper()
	return c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token}).Token()
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
	wantError(t, err, "invalid_grant")
	_, err = b.refresh(t, b.cli, second.RefreshToken)
	wantError(t, err, "invalid_grant")
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
			wantError(t, err, "invalid_grant")
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
