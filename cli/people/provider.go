package people

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// signing is one sign-in at the provider.
type signing struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	issuer   string
	nonce    string
	acr      string // values of which an administrator needs one
	http     *http.Client
	clock    clock.Clock
}

// atProvider signs in at the provider of the installation, and makes the person known
// there.
func (l *loginFlow) atProvider(ctx context.Context, c *client.Client) (tokens, oapi.UserSummary, error) {
	none := tokens{}
	options, err := client.Send[oapi.SignInOptions](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSignInOptions(ctx) })
	if err != nil {
		return none, oapi.UserSummary{}, err
	}
	if options.Value.Oidc == nil {
		f := &output.CommandError{Message: c.Settings.URL + " has no OpenID provider", Code: string(errs.LoginFailed), Try: "set GPUAAS_TOKEN to an API key", Exit: output.ExitSignIn}
		if options.Value.PersonalLogin {
			f.Try = "gpuaas login --email YOU"
		}
		return none, oapi.UserSummary{}, f
	}
	s, err := l.discover(ctx, *options.Value.Oidc, c)
	if err != nil {
		return none, oapi.UserSummary{}, err
	}
	ctx = oidc.ClientContext(ctx, s.http)
	token, err := l.choose(ctx, s)
	if err != nil {
		return none, oapi.UserSummary{}, l.loginError(ctx, err)
	}
	text, err := s.check(ctx, token)
	if err != nil {
		return none, oapi.UserSummary{}, err
	}
	known, err := client.Send[oapi.SignedIn](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.ExchangeOidc(ctx, nil, oapi.ExchangeRequest{IdToken: &text})
	})
	return tokens{access: token.AccessToken, refresh: token.RefreshToken, expires: s.end(token)}, known.Value.User, err
}

func (l *loginFlow) discover(ctx context.Context, o oapi.OidcOptions, c *client.Client) (*signing, error) {
	transport, err := client.TransportFor(c.Settings.CA)
	if err != nil {
		return nil, err
	}
	s := &signing{issuer: o.Issuer, acr: output.ValueOrZero(o.AcrValues), http: &http.Client{Transport: transport, Timeout: client.OneTry}, clock: l.app.Clock}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, s.http), o.Issuer)
	if err != nil {
		return nil, errs.New(errs.ProviderFailed, "the identity provider %s is not reachable", o.Issuer).Try("check the network, the proxy and the certificate authority").Because(err)
	}
	s.oauth = oauth2.Config{ClientID: o.CliClientId, Endpoint: found.Endpoint(), Scopes: o.Scopes}
	s.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams // public: there is no secret to send elsewhere
	s.verifier = found.Verifier(&oidc.Config{ClientID: o.CliClientId, Now: l.app.Clock.Now})
	return s, nil
}

// choose returns the browser, unless there is none.
func (l *loginFlow) choose(ctx context.Context, s *signing) (*oauth2.Token, error) {
	if l.device {
		return l.byDevice(ctx, s)
	}
	if l.noBrowser {
		return l.byBrowser(ctx, s, nil)
	}
	open := l.app.Browser()
	if open == nil && s.oauth.Endpoint.DeviceAuthURL != "" {
		return l.byDevice(ctx, s)
	}
	return l.byBrowser(ctx, s, open)
}

func (l *loginFlow) byDevice(ctx context.Context, s *signing) (*oauth2.Token, error) {
	if s.oauth.Endpoint.DeviceAuthURL == "" {
		return nil, errs.New(errs.LoginFailed, "the provider has no device flow").Try("gpuaas login --no-browser")
	}
	// Keycloak wants PKCE here too where the client must use it; others ignore it.
	verifier := oauth2.GenerateVerifier()
	begun, err := s.oauth.DeviceAuth(ctx, append(l.options(s), oauth2.S256ChallengeOption(verifier))...)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(l.app.Err, "Open %s on any device and type the code %s\n", begun.VerificationURI, begun.UserCode)
	if begun.VerificationURIComplete != "" {
		_, _ = fmt.Fprintf(l.app.Err, "or open %s\n", begun.VerificationURIComplete)
	}
	return s.oauth.DeviceAccessToken(ctx, begun, oauth2.VerifierOption(verifier))
}

// check verifies the ID token. A device sign-in has no nonce, because its code was never in a
// browser.
func (s *signing) check(ctx context.Context, token *oauth2.Token) (text string, err error) {
	text, _ = token.Extra("id_token").(string)
	said, err := s.verifier.Verify(ctx, text)
	if err == nil && said.Nonce != s.nonce {
		err = errors.New("the response belongs to another sign-in")
	}
	if err != nil {
		return "", errs.New(errs.OIDCExchangeFailed, "the ID token of the provider is not valid").Because(err)
	}
	return text, nil
}

// end is a time of the local clock, because the CLI later compares it with this clock.
func (s *signing) end(token *oauth2.Token) time.Time {
	if token.ExpiresIn <= 0 {
		return time.Time{}
	}
	return s.clock.Now().Add(time.Duration(token.ExpiresIn) * time.Second).Truncate(time.Second)
}

// loginError translates an error of the provider or of the wait for it.
func (l *loginFlow) loginError(ctx context.Context, err error) error {
	var answer *oauth2.RetrieveError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &output.CommandError{Message: "no sign-in within " + l.timeout.String(), Code: output.CodeTimeout, Try: "gpuaas login", Exit: output.ExitTimeout}
	case errors.As(err, &answer) && answer.ErrorCode != "":
		text := answer.ErrorCode
		if answer.ErrorDescription != "" {
			text += ": " + answer.ErrorDescription
		}
		return errs.New(errs.LoginFailed, "the provider rejected the sign-in: %s", text).Try("gpuaas login")
	}
	return err
}

func random() string { return rand.Text() }
