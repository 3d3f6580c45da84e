package oidc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// VerifyAuthRequest finds the client; the library then checks redirect, scopes
// and response type against it.
func (s *Server) VerifyAuthRequest(_ context.Context, r *op.Request[oidc.AuthRequest]) (*op.ClientRequest[oidc.AuthRequest], error) {
	c := s.client(r.Data.ClientID)
	switch {
	case r.Data.RequestParam != "":
		return nil, oidc.ErrRequestNotSupported()
	case c == nil:
		return nil, oidc.ErrInvalidRequest().WithDescription("there is no client %q", r.Data.ClientID)
	}
	return &op.ClientRequest[oidc.AuthRequest]{Request: r, Client: c}, nil
}

// Authorize sends the person to the login page.
func (s *Server) Authorize(ctx context.Context, r *op.ClientRequest[oidc.AuthRequest]) (*op.Redirect, error) {
	a := r.Data
	var refusal *oidc.Error
	switch {
	case a.CodeChallenge == "" || a.CodeChallengeMethod != oidc.CodeChallengeMethodS256:
		refusal = oidc.ErrInvalidRequest().WithDescription("PKCE with S256 is required")
	case slices.Contains(a.Prompt, oidc.PromptNone):
		refusal = oidc.ErrLoginRequired() // the provider has no sign-in sessions
	}
	if refusal != nil {
		return op.TryErrorRedirect(ctx, a, refusal, oidc.NewEncoder(), s.library)
	}
	id := s.store.ask(s.cfg.Clock.Now(), pendingSignIn{
		grant:    grant{client: a.ClientID, scopes: a.Scopes, nonce: a.Nonce, acr: a.ACRValues},
		redirect: a.RedirectURI, state: a.State, challenge: a.CodeChallenge,
	})
	return op.NewRedirect(r.Client.LoginURL(id)), nil
}

// CodeExchange changes a code for tokens, once.
func (s *Server) CodeExchange(_ context.Context, r *op.ClientRequest[oidc.AccessTokenRequest]) (*op.Response, error) {
	c, ok := s.store.spend(s.cfg.Clock.Now(), r.Data.Code)
	switch {
	case !ok || c.client != r.Client.GetID():
		return nil, oidc.ErrInvalidGrant().WithDescription("the code is unknown, used or too old")
	case c.redirect != r.Data.RedirectURI:
		return nil, oidc.ErrInvalidGrant().WithDescription("redirect_uri is not the one that the code was sent to")
	case oidc.NewSHACodeChallenge(r.Data.CodeVerifier) != c.challenge:
		return nil, oidc.ErrInvalidGrant().WithDescription("code_verifier does not fit the challenge")
	}
	return s.give(c.grant, c)
}

// DeviceToken answers a device that polls.
func (s *Server) DeviceToken(_ context.Context, r *op.ClientRequest[oidc.DeviceAccessTokenRequest]) (*op.Response, error) {
	now := s.cfg.Clock.Now()
	d, ok := s.store.poll(now, r.Data.DeviceCode, r.Client.GetID())
	switch {
	case !ok:
		return nil, oidc.ErrInvalidGrant().WithDescription("the device code is unknown or used")
	case d.denied:
		return nil, oidc.ErrAccessDenied()
	case d.done:
		return s.give(d.grant, nil)
	case now.After(d.until):
		return nil, oidc.ErrExpiredDeviceCode()
	}
	return nil, oidc.ErrAuthorizationPending()
}

// give grants a refresh token with every sign-in, as Keycloak does.
func (s *Server) give(g grant, from *code) (*op.Response, error) {
	answer, err := s.mint(g, s.store.begin(s.cfg.Clock.Now(), g, from))
	if err != nil {
		return nil, err
	}
	return op.NewResponse(answer), nil
}

// RefreshToken changes a refresh token for new tokens.
func (s *Server) RefreshToken(_ context.Context, r *op.ClientRequest[oidc.RefreshTokenRequest]) (*op.Response, error) {
	token, g, ok := s.store.rotate(s.cfg.Clock.Now(), r.Data.RefreshToken, r.Client.GetID())
	if !ok {
		return nil, oidc.ErrInvalidGrant().WithDescription("the refresh token is unknown, used or revoked")
	}
	g.nonce = "" // it belongs to the answer of the sign-in
	answer, err := s.mint(g, token)
	if err != nil {
		return nil, err
	}
	return op.NewResponse(answer), nil
}

// pollEvery is the polling interval in seconds. It is short because all clients are local.
const pollEvery = 1

// DeviceAuthorization starts the device flow.
func (s *Server) DeviceAuthorization(_ context.Context, r *op.ClientRequest[oidc.DeviceAuthorizationRequest]) (*op.Response, error) {
	if !slices.Contains(r.Client.GrantTypes(), oidc.GrantTypeDeviceCode) {
		return nil, oidc.ErrUnauthorizedClient().WithDescription("this client may not use the device flow")
	}
	user, err := op.NewUserCode([]rune(op.CharSetBase20), op.UserCodeBase20.CharAmount, op.UserCodeBase20.DashInterval)
	if err != nil {
		return nil, err
	}
	text := s.store.addDevice(s.cfg.Clock.Now(), grant{client: r.Client.GetID(), scopes: r.Data.Scopes, acr: strings.Fields(r.Form.Get("acr_values"))}, user)
	return op.NewResponse(&oidc.DeviceAuthorizationResponse{
		DeviceCode: text, UserCode: user, ExpiresIn: int(deviceFor.Seconds()), Interval: pollEvery,
		VerificationURI: s.base + "/device", VerificationURIComplete: s.base + "/device?user_code=" + user,
	}), nil
}

// Revocation ends a token of the client. What is unknown is ended already.
func (s *Server) Revocation(_ context.Context, r *op.ClientRequest[oidc.RevocationRequest]) (*op.Response, error) {
	now := s.cfg.Clock.Now()
	if s.store.revoke(now, r.Data.Token, r.Client.GetID()) {
		return op.NewResponse(nil), nil
	}
	if c, err := s.keys.read(r.Data.Token); err == nil && c.AuthorizedParty == r.Client.GetID() {
		s.store.revokeAccess(now, c.ID, c.Expiry.Time())
	}
	return op.NewResponse(nil), nil
}

// UserInfo returns the user of an access token.
func (s *Server) UserInfo(_ context.Context, r *op.Request[oidc.UserInfoRequest]) (*op.Response, error) {
	now := s.cfg.Clock.Now()
	c, err := s.keys.read(r.Data.AccessToken)
	if err != nil || c.Type != typeAccess || now.After(c.Expiry.Time()) || s.store.accessRevoked(now, c.ID) {
		return nil, op.NewStatusError(oidc.ErrAccessDenied().WithDescription("the access token is not valid"), http.StatusUnauthorized)
	}
	return op.NewResponse(map[string]any{
		"sub": c.Subject, "email": c.Email, "email_verified": c.EmailVerified, "name": c.Name,
		"preferred_username": c.Username, "realm_access": c.RealmAccess,
	}), nil
}

// EndSession revokes the grant of the ID token's user to its client. It redirects to that client if
// the client has requested a page of its own.
func (s *Server) EndSession(_ context.Context, r *op.Request[oidc.EndSessionRequest]) (*op.Redirect, error) {
	said, err := s.keys.read(r.Data.IdTokenHint)
	if err != nil || said.Type != typeID {
		return op.NewRedirect(s.base + "/signed-out"), nil //nolint:nilerr // nobody to sign out: nothing to refuse
	}
	s.store.leave(s.cfg.Clock.Now(), said.Subject, said.AuthorizedParty)
	back, ok := s.backTo(said.AuthorizedParty, r.Data.PostLogoutRedirectURI, r.Data.State)
	if !ok {
		return op.NewRedirect(s.base + "/signed-out"), nil
	}
	return op.NewRedirect(back), nil
}
