package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SignInOptions are what clients are told about the provider.
type SignInOptions struct {
	Issuer, CLIClientID, Audience string
	Scopes                        []string
	Development                   bool // the provider is the one for development
}

// maySignIn says whether a browser can sign in here at all.
func (s *Server) maySignIn() bool { return s.OIDC != nil || s.passwords() }

func (s *Server) passwords() bool { return s.PersonalLogin != nil && s.PersonalLogin() }

// GetSignInOptions handles GET /api/v1/auth/options.
func (s *Server) GetSignInOptions(context.Context, oapi.GetSignInOptionsRequestObject) (oapi.GetSignInOptionsResponseObject, error) {
	o := oapi.GetSignInOptions200JSONResponse{PersonalLogin: s.passwords(), Development: s.SignIn.Development}
	if s.OIDC != nil {
		o.Oidc = &oapi.OidcOptions{Issuer: s.SignIn.Issuer, CliClientId: s.SignIn.CLIClientID, Audience: s.SignIn.Audience, Scopes: s.SignIn.Scopes}
	}
	return o, nil
}

// AuthorizeOidc handles GET /api/v1/auth/oidc/authorize.
func (s *Server) AuthorizeOidc(ctx context.Context, req oapi.AuthorizeOidcRequestObject) (oapi.AuthorizeOidcResponseObject, error) {
	c, err := s.browser(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = of(ctx)
	p, err := s.begin(c.Writer, c.Request, returnTo(or(req.Params.ReturnTo, "/")))
	if err != nil {
		return nil, err
	}
	to, err := s.OIDC.AuthCodeURL(ctx, p.Redirect, p.State, p.Nonce, p.Verifier)
	if err != nil {
		return nil, err
	}
	return oapi.AuthorizeOidc302Response{Headers: oapi.AuthorizeOidc302ResponseHeaders{Location: to}}, nil
}

// browser is the request itself, for what sets cookies; with a provider to go to.
func (s *Server) browser(ctx context.Context) (*gin.Context, error) {
	if s.OIDC == nil {
		return nil, errs.New(errs.NotFound, "this installation has no sign-in provider").Try("read the sign-in options at /api/v1/auth/options")
	}
	return request(ctx)
}

func request(ctx context.Context) (*gin.Context, error) {
	c, ok := ctx.(*gin.Context)
	if !ok {
		return nil, errs.New(errs.Internal, "no request in the context")
	}
	return c, nil
}

// ExchangeOidc handles POST /api/v1/auth/oidc/exchange.
func (s *Server) ExchangeOidc(ctx context.Context, req oapi.ExchangeOidcRequestObject) (oapi.ExchangeOidcResponseObject, error) {
	c, err := s.browser(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = of(ctx)
	code, state, idToken := or(req.Body.Code, ""), or(req.Body.State, ""), or(req.Body.IdToken, "")
	switch {
	case idToken != "" && code == "" && state == "":
		v, err := s.OIDC.Identify(ctx, idToken)
		if err != nil {
			return nil, err
		}
		u, err := s.Identity.SignIn(ctx, v, origin(c))
		return oapi.ExchangeOidc200JSONResponse{User: toPerson(u), ExpiresAt: new(v.Until.UTC())}, err
	case idToken != "" || code == "" || state == "":
		return nil, errs.Invalid("code", "is needed with state, or id_token alone")
	}
	if err := sameOrigin(c.Request); err != nil {
		return nil, err
	}
	started, _, err := s.finish(ctx, c, code, state)
	if err != nil {
		return nil, err
	}
	return oapi.ExchangeOidc200JSONResponse{User: toPerson(started.User), ExpiresAt: new(started.Session.ExpiresAt.UTC())}, nil
}

// finish trades the provider's code for a session of this browser.
func (s *Server) finish(ctx context.Context, c *gin.Context, code, state string) (started identity.Started, back string, err error) {
	p, err := s.take(c.Writer, c.Request, state)
	if err != nil {
		return started, "", err
	}
	g, err := s.OIDC.Exchange(ctx, p.Redirect, code, p.Nonce, p.Verifier)
	if err != nil {
		return started, "", err
	}
	started, err = s.Identity.SignInSession(ctx, g.Verified, identity.NewSession{Kind: "browser", Refresh: g.Refresh, Origin: origin(c)})
	if err == nil {
		s.remember(c, started)
	}
	return started, p.Return, err
}

// remember gives the browser its session.
func (s *Server) remember(c *gin.Context, started identity.Started) {
	http.SetCookie(c.Writer, sessionCookie(c.Request, started.Token, started.Session.ExpiresAt.Sub(s.Clock.Now())))
}

func forget(c *gin.Context) { http.SetCookie(c.Writer, sessionCookie(c.Request, "", 0)) }

func origin(c *gin.Context) identity.Origin {
	_, r := of(c)
	address, _, err := net.SplitHostPort(c.Request.RemoteAddr)
	if err != nil { // a Unix socket has no address
		address = ""
	}
	return identity.Origin{Address: address, UserAgent: c.Request.UserAgent(), CorrelationID: r.correlation}
}

// LoginPersonal handles POST /api/v1/auth/personal/login.
func (s *Server) LoginPersonal(ctx context.Context, req oapi.LoginPersonalRequestObject) (oapi.LoginPersonalResponseObject, error) {
	c, err := request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = of(ctx)
	if err := sameOrigin(c.Request); err != nil {
		return nil, err
	}
	kind := "program"
	if fromBrowser(c.Request) {
		kind = "browser"
	}
	started, err := s.Identity.PersonalLogin(ctx, req.Body.Email, req.Body.Password, kind, origin(c))
	if err != nil {
		return nil, err
	}
	in := oapi.LoginPersonal200JSONResponse{User: toPerson(started.User), ExpiresAt: new(started.Session.ExpiresAt.UTC())}
	if kind == "browser" {
		s.remember(c, started) // and nowhere that a script could read it
	} else {
		in.Token = &started.Token
	}
	return in, nil
}

// fromBrowser goes by what browsers alone say, and say with every write.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// RefreshToken handles POST /api/v1/auth/token/refresh.
func (s *Server) RefreshToken(ctx context.Context, req oapi.RefreshTokenRequestObject) (oapi.RefreshTokenResponseObject, error) {
	c, err := request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := of(ctx)
	if req.Body != nil && or(req.Body.RefreshToken, "") != "" {
		return s.refreshProgram(ctx, c, *req.Body.RefreshToken)
	}
	token, err := s.token(c, r)
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return nil, errs.New(errs.TokenMissing, "the request has no refresh_token and no session")
	case r.byCookie:
		if err := sameOrigin(c.Request); err != nil {
			return nil, err
		}
	}
	u, err := s.Identity.RefreshSession(ctx, token, origin(c))
	if err != nil {
		if r.byCookie && statusOf(errs.CodeOf(err)) == http.StatusUnauthorized {
			forget(c)
		}
		return nil, err
	}
	return oapi.RefreshToken200JSONResponse{User: new(toPerson(u))}, nil
}

func (s *Server) refreshProgram(ctx context.Context, c *gin.Context, refresh string) (oapi.RefreshTokenResponseObject, error) {
	g, u, err := s.Identity.RefreshProgram(ctx, refresh, origin(c))
	if err != nil {
		return nil, err
	}
	return oapi.RefreshToken200JSONResponse{
		AccessToken: &g.Access, RefreshToken: filled(g.Refresh), User: new(toPerson(u)),
		ExpiresIn: new(int(max(g.Until.Sub(s.Clock.Now()), 0) / time.Second)),
	}, nil
}

// Logout handles POST /api/v1/auth/logout.
func (s *Server) Logout(ctx context.Context, req oapi.LogoutRequestObject) (oapi.LogoutResponseObject, error) {
	c, err := request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := of(ctx)
	token, err := s.token(c, r)
	if err != nil {
		return nil, err
	}
	refresh := ""
	if req.Body != nil {
		refresh = or(req.Body.RefreshToken, "")
	}
	if err := s.logout(ctx, c, r.caller, token, refresh); err != nil {
		return nil, err
	}
	return oapi.Logout204Response{}, nil
}

// logout ends it here whatever the provider does: a token that it keeps opens
// nothing of ours.
func (s *Server) logout(ctx context.Context, c *gin.Context, who identity.Caller, token, refresh string) error {
	err := s.Identity.Logout(ctx, who, token, refresh)
	if errs.CodeOf(err) == errs.ProviderFailed {
		s.Log.WarnContext(ctx, "refresh token not revoked at the provider", slog.Any("err", err))
		err = nil
	}
	if err == nil {
		forget(c)
	}
	return err
}

// SetPassword handles PUT /api/v1/users/me/password.
func (s *Server) SetPassword(ctx context.Context, req oapi.SetPasswordRequestObject) (oapi.SetPasswordResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.SetPassword(ctx, r.caller, or(req.Body.Current, ""), req.Body.Password); err != nil {
		return nil, err
	}
	return oapi.SetPassword204Response{}, nil
}

// MintServiceAccountToken handles POST /api/v1/service-accounts/token.
func (s *Server) MintServiceAccountToken(ctx context.Context, req oapi.MintServiceAccountTokenRequestObject) (oapi.MintServiceAccountTokenResponseObject, error) {
	ctx, _ = of(ctx)
	m, err := s.Identity.MintToken(ctx, req.Body.Secret, namesOf(or(req.Body.Scopes, nil)), or(req.Body.Audience, ""))
	if err != nil {
		return nil, err
	}
	return oapi.MintServiceAccountToken200JSONResponse{AccessToken: m.Token, TokenType: oapi.Bearer, ExpiresIn: int(m.For / time.Second), Scopes: scopesOf(m.Scopes)}, nil
}

// GetTokenKeys handles GET /.well-known/jwks.json.
func (s *Server) GetTokenKeys(context.Context, oapi.GetTokenKeysRequestObject) (oapi.GetTokenKeysResponseObject, error) {
	keys := oapi.GetTokenKeys200JSONResponse{Keys: []oapi.TokenKey{}}
	if s.TokenKeys == nil {
		return keys, nil
	}
	text, err := s.TokenKeys()
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		return nil, fmt.Errorf("showing the keys of tokens: %w", err)
	}
	return keys, nil
}

func toPerson(u identity.User) oapi.UserSummary {
	return oapi.UserSummary{Id: u.ID.UUID, Email: u.Email, Name: u.Name, Role: oapi.UserSummaryRole(u.Role), Version: &u.Version}
}
