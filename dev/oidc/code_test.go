package oidc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
)

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
			wantError(t, err, "invalid_grant")
			_, err = b.web.Exchange(t.Context(), code, right)
			wantError(t, err, "invalid_grant")
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
	wantError(t, err, "invalid_grant")
}

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
	wantError(t, err, "invalid_grant")
	_, err = b.refresh(t, b.web, first.RefreshToken)
	wantError(t, err, "invalid_grant")
}

func TestWrongSecretBurnsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verifier := oauth2.GenerateVerifier()
	code := oidctest.SignIn(t, b.web.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), dev).Query().Get("code")
	wrong := *b.web
	wrong.ClientSecret = "no"
	_, err := wrong.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	wantError(t, err, "invalid_client")
	if _, err := b.web.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err != nil {
		t.Error(err)
	}
}
