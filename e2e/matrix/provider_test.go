package matrix_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/server"
)

const audience = "gpuaas-api"

// provider is an OpenID provider with the parts that a bearer token needs. It signs any claims.
type provider struct {
	url string
	key *ecdsa.PrivateKey
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// through makes the server trust the provider.
func (p *provider) through(_ *installation, c *server.Config) {
	c.Profile.SignIn = desired.SignIn{Issuer: p.url, ClientID: "gpuaas", CLIClientID: "gpuaas-cli", Audience: audience, RolesClaim: "realm_access.roles"}
}

// token is an access token of a person, for an audience, that began so long ago
// and lives for five minutes.
func (p *provider) token(t testing.TB, subject, audience string, ago time.Duration) string {
	t.Helper()
	began := time.Now().Add(-ago)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "one"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": p.url, "sub": subject, "aud": []string{audience}, "iat": began.Unix(), "exp": began.Add(5 * time.Minute).Unix(),
		"jti": subject + ago.String(), "azp": "gpuaas-cli", "typ": "Bearer", "email": subject, "email_verified": true, "preferred_username": subject,
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
