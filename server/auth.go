package server

import (
	"cmp"

	"github.com/gpuaas/gpuaas/api/rest"
	restsignin "github.com/gpuaas/gpuaas/api/rest/signin"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// SignIn names the OIDC provider and this server's client there. The profile sets what is empty.
type SignIn struct {
	Issuer       string
	ClientID     string
	ClientSecret string // empty: a public client
	CLIClientID  string
}

// SignInFromEnv reads the provider from the environment.
func SignInFromEnv(getenv func(string) string) (SignIn, error) {
	secret, err := secretref.FromEnv(getenv, "GPUAAS_OIDC_CLIENT_SECRET")
	if err != nil {
		return SignIn{}, err
	}
	return SignIn{Issuer: cmp.Or(getenv("GPUAAS_OIDC_ISSUER_URL"), getenv("KEYCLOAK_ISSUER_URL")), ClientSecret: secret}, nil
}

// providerOf returns the OIDC provider, or nil. The environment overrides the profile.
func providerOf(c Config) *oidc.Provider {
	p := c.Profile.SignIn
	issuer := cmp.Or(c.SignIn.Issuer, p.Issuer)
	if issuer == "" {
		return nil
	}
	return oidc.New(oidc.Config{
		Issuer: issuer, ClientID: cmp.Or(c.SignIn.ClientID, p.ClientID), ClientSecret: c.SignIn.ClientSecret,
		CLIClientID: cmp.Or(c.SignIn.CLIClientID, p.CLIClientID), Audience: p.Audience, RolesClaim: p.RolesClaim, Roles: p.Roles, Clock: c.Clock,
	})
}

// auth contains what users and service accounts sign in with.
type auth struct {
	provider *oidc.Provider // nil without an OIDC provider
	tokens   *signin.Tokens // nil without the role api
}

func newAuth(c Config, keys *keystore.Keys) *auth {
	a := &auth{provider: providerOf(c)}
	if keys.Tokens != nil {
		a.tokens = &signin.Tokens{Issuer: "gpuaas:" + c.Environment, Audience: cmp.Or(c.Profile.SignIn.Audience, "gpuaas-api"), Keys: keys.Tokens, Clock: c.Clock}
	}
	return a
}

// configure adds to the API what it needs for sign-ins.
func (a *auth) configure(c *rest.Config, development bool) {
	c.TokenKeys = a.tokens.Document
	if p := a.provider; p != nil {
		c.Provider = p
		c.SignIn = restsignin.Options{Issuer: p.Issuer(), CLIClientID: p.CLIClientID, Audience: p.Audience, Scopes: oidc.Scopes(), Development: development}
	}
}
