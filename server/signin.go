package server

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"path/filepath"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
)

// SignIn names the OpenID provider that people sign in at, and this server's
// client there. What is empty is the profile's to say.
type SignIn struct {
	Issuer       string
	ClientID     string
	ClientSecret string // empty: a public client
	CLIClientID  string
}

// SignInFromEnv reads what stands in the environment.
func SignInFromEnv(getenv func(string) string) (SignIn, error) {
	secret, err := secretref.FromEnv(getenv, "GPUAAS_OIDC_CLIENT_SECRET")
	if err != nil {
		return SignIn{}, err
	}
	return SignIn{Issuer: cmp.Or(getenv("GPUAAS_OIDC_ISSUER_URL"), getenv("KEYCLOAK_ISSUER_URL")), ClientSecret: secret}, nil
}

// providerOf is who signs people in, or nil: what the environment says goes
// before the profile.
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

// entrance is what people and programs sign in by, the same for all roles.
type entrance struct {
	provider *oidc.Provider // nil: nobody signs people in
	tokens   *identity.Tokens
	seal     cipher.AEAD
}

func openEntrance(c Config) (*entrance, error) {
	keys, err := pki.OpenKeyring(filepath.Join(c.StateDir, "token-keys"))
	if err != nil {
		return nil, err
	}
	seal, err := sealOf(c.StateDir)
	if err != nil {
		return nil, err
	}
	return &entrance{
		provider: providerOf(c), seal: seal,
		tokens: &identity.Tokens{Issuer: "gpuaas:" + c.Environment, Audience: cmp.Or(c.Profile.SignIn.Audience, "gpuaas-api"), Keys: keys, Clock: c.Clock},
	}, nil
}

// identity furnishes the room that knows who calls.
func (e *entrance) identity(c Config, db pg.Pool, r *rooms) *identity.Service {
	s := &identity.Service{DB: db, Clock: c.Clock, Naming: c.naming(), Hints: r.hints, Seal: e.seal, Tokens: e.tokens, Policy: r.policy.of}
	if e.provider != nil {
		s.Provider = e.provider
	}
	return s
}

// tellSignIn adds to the door what it needs for signing people in.
func (r *rooms) tellSignIn(c *rest.Config, development bool) {
	c.PersonalLogin = r.passwords
	c.TokenKeys = r.entrance.tokens.Document
	if p := r.entrance.provider; p != nil {
		c.OIDC = p
		c.SignIn = rest.SignInOptions{Issuer: p.Issuer(), CLIClientID: p.CLIClientID, Audience: p.Audience, Scopes: oidc.Scopes(), Development: development}
	}
}

// sealOf encrypts what is kept and shows a secret.
func sealOf(dir string) (cipher.AEAD, error) {
	key, err := keptKey(filepath.Join(dir, "seal.key"))
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("reading the sealing key: %w", err)
	}
	return cipher.NewGCM(block)
}
