package up

import (
	"context"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
)

// The issuer knows the server's pages and the seeded people, with their roles.
func TestIssuerOfUp(t *testing.T) {
	t.Setenv("GPUAAS_OIDC_ISSUER_URL", "") // so that this one is started
	t.Setenv("KEYCLOAK_ISSUER_URL", "")
	i := &installation{cfg: Config{IssuerListen: "127.0.0.1:0"}, profile: desired.Environment{Development: true}}
	named, err := i.startIssuer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.issuer.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	i.issuer.SetClients(i.issuer.clients("http://127.0.0.1:8080"))
	found, err := oidc.NewProvider(t.Context(), named.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	running := &oidctest.Issuer{URL: named.Issuer}
	for _, c := range []*oauth2.Config{
		running.Config(named.ClientID, named.ClientSecret, "http://127.0.0.1:8080/auth/callback"),
		running.Config(named.CLIClientID, "", "http://127.0.0.1:40404/callback"),
	} {
		for _, p := range devseed.People() {
			token := running.Tokens(t, c, p.Email, "n")
			said, err := found.Verifier(&oidc.Config{ClientID: devseed.Audience}).Verify(t.Context(), token.AccessToken)
			if err != nil {
				t.Fatal(err)
			}
			var claims struct {
				Realm struct {
					Roles []string `json:"roles"`
				} `json:"realm_access"`
			}
			if err := said.Claims(&claims); err != nil || said.Subject != p.Email || strings.Join(claims.Realm.Roles, " ") != strings.Join(p.ProviderRoles(), " ") {
				t.Errorf("%s: subject %s, roles %v, %v", p.Email, said.Subject, claims.Realm.Roles, err)
			}
		}
	}
}

// A configured provider is used instead of the double.
func TestAnotherProviderIsEnough(t *testing.T) {
	t.Setenv("GPUAAS_OIDC_ISSUER_URL", "https://id.example/realms/gpuaas")
	i := &installation{profile: desired.Environment{Development: true}}
	if named, err := i.startIssuer(t.Context()); err != nil || named.Issuer != "https://id.example/realms/gpuaas" || i.issuer != nil {
		t.Errorf("%+v, %v", named, err)
	}
	if lines := i.signInLines(); lines != nil {
		t.Errorf("the screen names people of another provider: %v", lines)
	}
}
