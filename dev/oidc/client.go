package oidc

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client answers what the library wants to know of one.
type client struct {
	Client

	base string
}

func (c *client) GetID() string                          { return c.ID }
func (c *client) LoginURL(id string) string              { return c.base + "/login?request=" + url.QueryEscape(id) }
func (*client) PostLogoutRedirectURIs() []string         { return nil } // see EndSession
func (*client) ResponseTypes() []oidc.ResponseType       { return []oidc.ResponseType{oidc.ResponseTypeCode} }
func (*client) AccessTokenType() op.AccessTokenType      { return op.AccessTokenTypeJWT }
func (*client) IDTokenLifetime() time.Duration           { return accessFor }
func (*client) DevMode() bool                            { return true } // redirects to http, of loopback names
func (*client) IsScopeAllowed(string) bool               { return false }
func (*client) IDTokenUserinfoClaimsAssertion() bool     { return true }
func (*client) ClockSkew() time.Duration                 { return 0 }
func (*client) RestrictAdditionalIdTokenScopes() scoping { return slices.Clone[[]string] }

func (*client) RestrictAdditionalAccessTokenScopes() scoping { return slices.Clone[[]string] }

type scoping = func([]string) []string

// RedirectURIs of a loopback client are valid for any port, as in RFC 8252: a local program uses a
// free port.
func (c *client) RedirectURIs() []string {
	if c.Loopback {
		return append(slices.Clone(c.Redirects), "http://127.0.0.1/callback", "http://127.0.0.1/")
	}
	return c.Redirects
}

func (c *client) ApplicationType() op.ApplicationType {
	if c.Loopback || c.Device {
		return op.ApplicationTypeNative
	}
	return op.ApplicationTypeWeb
}

func (c *client) AuthMethod() oidc.AuthMethod {
	if c.Secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (c *client) GrantTypes() []oidc.GrantType {
	grants := []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
	if c.Device {
		grants = append(grants, oidc.GrantTypeDeviceCode)
	}
	return grants
}

// VerifyClient runs before any code or token is read, so a wrong secret does not use up a code.
func (s *Server) VerifyClient(_ context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	c := s.client(r.Data.ClientID)
	if c == nil || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(r.Data.ClientSecret)) != 1 {
		return nil, op.NewStatusError(oidc.ErrInvalidClient().WithDescription("unknown client or wrong secret"), http.StatusUnauthorized)
	}
	return c, nil
}
