// Package oidc is the client of the identity provider: OpenID Connect with an authorization code and
// PKCE, the provider's keys and its tokens. It stores nothing about users and makes no authorisation
// decision: it returns the identity and the role that the provider has asserted.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// Config names a provider and who we are there.
type Config struct {
	Issuer                 string
	ClientID, ClientSecret string // of the server; a public client has no secret
	CLIClientID            string // of programs on users' computers; public
	Audience               string // must be in the aud of access tokens
	RolesClaim             string // dotted path to a list of texts
	Roles                  map[string]string
	Clock                  clock.Clock
	Transport              http.RoundTripper // nil: the usual one
}

// Provider is one issuer. It may be unavailable at the start: its documents are fetched when they are
// needed.
type Provider struct {
	Config

	client *http.Client
	keys   *keySet
	found  cached[endpoints]
}

// New makes a provider without asking it anything.
func New(c Config) *Provider {
	p := &Provider{Config: c, client: newClient(c.Transport)}
	p.found.clock, p.found.fetch = c.Clock, p.discover
	p.keys = newKeySet(p.client, c.Clock, func(ctx context.Context) (string, error) {
		e, err := p.endpoints(ctx)
		return e.keys, err
	})
	return p
}

// Scopes returns the OAuth scopes of a program's sign-in, which outlives the user's session at the provider.
func Scopes() []string { return append(browserScopes(), oidc.ScopeOfflineAccess) }

// browserScopes returns those of a browser's sign-in, which ends with the user's session at the provider.
func browserScopes() []string { return []string{oidc.ScopeOpenID, "profile", "email"} }

// Issuer is the name that its tokens carry.
func (p *Provider) Issuer() string { return p.Config.Issuer }

// Keys is another text whenever the provider's keys have changed.
func (p *Provider) Keys(ctx context.Context) (string, error) { return p.keys.print(ctx) }

func (p *Provider) endpoints(ctx context.Context) (endpoints, error) {
	return p.found.get(ctx, func(endpoints) bool { return true })
}

// Verify validates an access token or returns the reason why it is invalid.
func (p *Provider) Verify(ctx context.Context, raw string) (signin.Verified, error) {
	t, err := jwt.Parse(raw)
	if err != nil {
		return signin.Verified{}, err
	}
	if err := p.keys.verify(ctx, t); err != nil {
		return signin.Verified{}, err
	}
	until, err := t.Access(jwt.Rules{Issuer: p.Config.Issuer, Audience: p.Audience, Now: p.Clock.Now()})
	if err != nil {
		return signin.Verified{}, err
	}
	v := p.verified(t.Claims)
	v.Until = until
	return v, nil
}

// verified reads the identity from the claims of a verified token.
func (p *Provider) verified(claims jwt.Object) signin.Verified {
	v := signin.Verified{
		Issuer: p.Config.Issuer, Subject: claims.Text("sub"), Email: strings.ToLower(strings.TrimSpace(claims.Text("email"))),
		EmailVerified: claims["email_verified"] == true, Name: claims.Text("name"), MapsRoles: len(p.Roles) > 0,
	}
	if v.Name == "" {
		v.Name = claims.Text("preferred_username")
	}
	v.Role = p.role(claims)
	v.SignIn = signInOf(claims)
	return v
}

// byRank lists the roles, the most powerful first, because a user may have several of the provider's
// roles.
var byRank = []string{"admin", "operator", "billing_operator"}

func (p *Provider) role(claims jwt.Object) string {
	best := len(byRank)
	for _, theirs := range claims.Texts(p.RolesClaim) {
		if rank := slices.Index(byRank, p.Roles[theirs]); rank >= 0 {
			best = min(best, rank)
		}
	}
	if best == len(byRank) {
		return "user"
	}
	return byRank[best]
}

// AuthCodeURL returns the address at which a browser requests a code from the provider.
func (p *Provider) AuthCodeURL(ctx context.Context, redirect, state, nonce, verifier string, again signin.Again) (string, error) {
	c, err := p.config(ctx, false)
	if err != nil {
		return "", err
	}
	c.RedirectURL = redirect
	options := []oauth2.AuthCodeOption{oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)}
	for name, value := range again.Parameters() {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	return c.AuthCodeURL(state, options...), nil
}

// config is our client there: the server's, or that of programs.
func (p *Provider) config(ctx context.Context, program bool) (oauth2.Config, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return oauth2.Config{}, err
	}
	c := oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: e.Endpoint, Scopes: browserScopes()}
	if program {
		c.ClientID, c.ClientSecret, c.Scopes = p.CLIClientID, "", Scopes()
	}
	if c.ClientSecret == "" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client only names itself
	}
	return c, nil
}

// Exchange turns a code into what the provider grants for it.
func (p *Provider) Exchange(ctx context.Context, redirect, code, nonce, verifier string) (signin.Grant, error) {
	c, err := p.config(ctx, false)
	if err != nil {
		return signin.Grant{}, err
	}
	c.RedirectURL = redirect
	t, err := c.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return signin.Grant{}, exchangeError(err, errs.New(errs.OIDCExchangeFailed, "the identity provider rejected the code").Try("sign in again"))
	}
	g, err := p.granted(ctx, t, p.ClientID, nonce)
	if err == nil && g.ID == "" {
		return g, errs.New(errs.OIDCExchangeFailed, "the identity provider returned no ID token").Try("the client needs the scope openid")
	}
	return g, err
}

// Refresh exchanges a refresh token for new tokens.
func (p *Provider) Refresh(ctx context.Context, refresh string, program bool) (signin.Grant, error) {
	c, err := p.config(ctx, program)
	if err != nil {
		return signin.Grant{}, err
	}
	t, err := c.TokenSource(oidc.ClientContext(ctx, p.client), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return signin.Grant{}, refreshError(err, program)
	}
	g, err := p.granted(ctx, t, c.ClientID, "")
	if err != nil && !program { // the token was accepted: no reason to end a session
		err = errs.New(errs.ProviderFailed, "the identity provider responds with tokens that are not valid").Because(err)
	}
	return g, err
}

// granted validates the tokens of a code exchange or a refresh. The ID token identifies the user; where
// a refresh returns none, the access token does.
func (p *Provider) granted(ctx context.Context, t *oauth2.Token, client, nonce string) (g signin.Grant, err error) {
	g = signin.Grant{Access: t.AccessToken, Refresh: t.RefreshToken, Until: t.Expiry}
	g.ID, _ = t.Extra("id_token").(string)
	access, opaque := p.Verify(ctx, t.AccessToken)
	if g.ID == "" {
		g.Verified = access
		return g, opaque
	}
	if g.Verified, err = p.identify(ctx, g.ID, client, nonce); err != nil {
		return g, err
	}
	// Keycloak writes roles into access tokens only, unless it is configured otherwise.
	if opaque == nil && access.Subject == g.Verified.Subject && g.Verified.Role == "user" {
		g.Verified.Role = access.Role
	}
	return g, nil
}

// exchangeError distinguishes a provider that rejects the request from one that cannot be reached.
func exchangeError(err error, no *errs.Error) error {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) && said.Response != nil && said.Response.StatusCode < http.StatusInternalServerError {
		return no.Because(err)
	}
	return errs.New(errs.ProviderFailed, "the sign-in provider cannot be reached").Try("repeat the request in a moment").Because(err)
}

// refreshError distinguishes a refresh token that has ended from a provider that rejects this installation. Only the first
// ends a session. A client sends the token of a service account, so any rejection is about the token.
func refreshError(err error, program bool) error {
	response, ok := errors.AsType[*oauth2.RetrieveError](err)
	if ok && (response.ErrorCode == "invalid_grant" || program && response.Response != nil && response.Response.StatusCode < http.StatusInternalServerError) {
		return errs.New(errs.TokenInvalid, "the identity provider no longer accepts the token").Try("sign in again").Because(err)
	}
	return exchangeError(err, errs.New(errs.ProviderFailed, "the identity provider rejects this installation").
		Try("an operator compares the client and its secret with the provider"))
}

// EndSessionURL implements signin.Provider, as OpenID Connect RP-Initiated Logout 1.0 describes it.
func (p *Provider) EndSessionURL(ctx context.Context, idToken, back string) (string, error) {
	e, err := p.endpoints(ctx)
	if err != nil || e.endSession == "" {
		return "", err
	}
	to, err := url.Parse(e.endSession)
	if err != nil {
		return "", fmt.Errorf("reading the end_session_endpoint: %w", err)
	}
	q := to.Query()
	q.Set("id_token_hint", idToken)
	q.Set("client_id", p.ClientID)
	q.Set("post_logout_redirect_uri", back)
	to.RawQuery = q.Encode()
	return to.String(), nil
}

// Revoke revokes a refresh token at the provider (RFC 7009). A provider without a revocation endpoint
// receives no request: the token expires by itself.
func (p *Provider) Revoke(ctx context.Context, refresh string, program bool) error {
	c, err := p.config(ctx, program)
	if err != nil {
		return err
	}
	e, err := p.endpoints(ctx)
	if err != nil || e.revocation == "" {
		return err
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}}
	if c.Endpoint.AuthStyle == oauth2.AuthStyleInParams {
		form.Set("client_id", c.ClientID)
		if c.ClientSecret != "" {
			form.Set("client_secret", c.ClientSecret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.Endpoint.AuthStyle == oauth2.AuthStyleInHeader {
		r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret)) // RFC 6749, 2.3.1
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return errs.New(errs.ProviderFailed, "the sign-in provider cannot be reached").Because(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= http.StatusInternalServerError {
		return errs.New(errs.ProviderFailed, "the identity provider responds %s", answer.Status)
	}
	return nil
}
