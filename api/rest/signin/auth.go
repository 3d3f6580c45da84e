package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
)

// Provider is the OIDC provider that users sign in with.
type Provider interface {
	AuthCodeURL(ctx context.Context, redirect, state, nonce, verifier string, again signin.Again) (string, error)
	Exchange(ctx context.Context, redirect, code, nonce, verifier string) (signin.Grant, error)
	Identify(ctx context.Context, idToken string) (signin.Verified, error)
}

// Options describe the provider to clients.
type Options struct {
	Issuer, CLIClientID, Audience string
	Scopes                        []string
	Development                   bool // the provider is the one for development
}

// Offered returns whether a browser can sign in at this server.
func (s *Handlers) Offered() bool { return s.Provider != nil || s.passwords() }

func (s *Handlers) passwords() bool {
	return s.Policies.Latest().For().Bool(policies.AuthPersonalLoginEnabled)
}

// GetSignInOptions handles GET /api/v1/auth/options.
func (s *Handlers) GetSignInOptions(context.Context, oapi.GetSignInOptionsRequestObject) (oapi.GetSignInOptionsResponseObject, error) {
	o := oapi.GetSignInOptions200JSONResponse{PersonalLogin: s.passwords(), Development: s.Options.Development}
	if s.Provider != nil {
		o.Oidc = &oapi.OidcOptions{
			Issuer: s.Options.Issuer, CliClientId: s.Options.CLIClientID, Audience: s.Options.Audience, Scopes: s.Options.Scopes,
			AcrValues: response.OrNil(s.SignIn.AdminACR()),
		}
	}
	return o, nil
}

// AuthorizeOidc handles GET /api/v1/auth/oidc/authorize.
func (s *Handlers) AuthorizeOidc(ctx context.Context, req oapi.AuthorizeOidcRequestObject) (oapi.AuthorizeOidcResponseObject, error) {
	c, err := s.browser(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = request.Of(ctx)
	stepUp := request.Or(req.Params.StepUp, false)
	p, err := s.begin(c.Writer, c.Request, page.ReturnTo(request.Or(req.Params.ReturnTo, "/")), stepUp)
	if err != nil {
		return nil, err
	}
	to, err := s.Provider.AuthCodeURL(ctx, p.Redirect, p.State, p.Nonce, p.Verifier, s.SignIn.Again(stepUp))
	if err != nil {
		return nil, err
	}
	return oapi.AuthorizeOidc302Response{Headers: oapi.AuthorizeOidc302ResponseHeaders{Location: to}}, nil
}

// browser returns the context of Gin, with which handlers set cookies. It fails without a provider.
func (s *Handlers) browser(ctx context.Context) (*gin.Context, error) {
	if s.Provider == nil {
		return nil, errs.New(errs.NotFound, "this installation has no sign-in provider").Try("read the sign-in options at /api/v1/auth/options")
	}
	return request.GinContext(ctx)
}

// ExchangeOidc handles POST /api/v1/auth/oidc/exchange.
func (s *Handlers) ExchangeOidc(ctx context.Context, req oapi.ExchangeOidcRequestObject) (oapi.ExchangeOidcResponseObject, error) {
	c, err := s.browser(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = request.Of(ctx)
	code, state, idToken := request.Or(req.Body.Code, ""), request.Or(req.Body.State, ""), request.Or(req.Body.IdToken, "")
	switch {
	case idToken != "" && code == "" && state == "":
		v, err := s.Provider.Identify(ctx, idToken)
		if err != nil {
			return nil, err
		}
		u, err := s.SignIn.SignInUser(ctx, v, origin(c))
		return oapi.ExchangeOidc200JSONResponse{User: s.toPerson(u), ExpiresAt: new(v.Until.UTC())}, err
	case idToken != "" || code == "" || state == "":
		return nil, errs.Invalid("code", "is needed with state, or id_token alone")
	}
	if err := request.SameOrigin(c.Request); err != nil {
		return nil, err
	}
	started, _, err := s.finish(ctx, c, code, state)
	if err != nil {
		return nil, err
	}
	return oapi.ExchangeOidc200JSONResponse{User: s.toPerson(started.User), ExpiresAt: new(started.Session.ExpiresAt.UTC())}, nil
}

// finish trades the provider's code for a session of this browser.
func (s *Handlers) finish(ctx context.Context, c *gin.Context, code, state string) (started signin.Started, p pending, err error) {
	p, err = s.consume(c.Writer, c.Request, state)
	if err != nil {
		return started, p, err
	}
	g, err := s.Provider.Exchange(ctx, p.Redirect, code, p.Nonce, p.Verifier)
	if err == nil && p.StepUp {
		err = g.Verified.SignedInSince(time.Unix(p.Until, 0).Add(-pendingFor))
	}
	if err != nil {
		return started, p, err
	}
	started, err = s.SignIn.SignInSession(ctx, g.Verified, signin.NewSession{Kind: "browser", Grant: signin.HeldTokens{Refresh: g.Refresh, ID: g.ID}, Origin: origin(c)})
	if err == nil {
		s.setCookie(c, started)
	}
	return started, p, err
}

// setCookie sets the session cookie.
func (s *Handlers) setCookie(c *gin.Context, started signin.Started) {
	http.SetCookie(c.Writer, request.SessionCookie(c.Request, started.Token, started.Session.ExpiresAt.Sub(s.Clock.Now())))
}

func forget(c *gin.Context) { http.SetCookie(c.Writer, request.SessionCookie(c.Request, "", 0)) }

func origin(c *gin.Context) signin.Origin {
	_, r := request.Of(c)
	client := request.Client(c.Request)
	return signin.Origin{Address: client.Address, UserAgent: client.UserAgent, CorrelationID: r.CorrelationID}
}

// LoginPersonal handles POST /api/v1/auth/personal/login.
func (s *Handlers) LoginPersonal(ctx context.Context, req oapi.LoginPersonalRequestObject) (oapi.LoginPersonalResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _ = request.Of(ctx)
	if err := request.SameOrigin(c.Request); err != nil {
		return nil, err
	}
	kind := "program"
	if fromBrowser(c.Request) {
		kind = "browser"
	}
	if err := s.chargeAccount(c, req.Body.Email); err != nil { //nolint:contextcheck // it takes that of the request
		return nil, err
	}
	started, err := s.SignIn.PersonalLogin(ctx, req.Body.Email, req.Body.Password, kind, origin(c))
	if err != nil {
		return nil, err
	}
	in := oapi.LoginPersonal200JSONResponse{User: s.toPerson(started.User), ExpiresAt: new(started.Session.ExpiresAt.UTC())}
	if kind == "browser" {
		s.setCookie(c, started) // and nowhere that a script could read it
	} else {
		in.Token = &started.Token
	}
	return in, nil
}

// chargeAccount counts an attempt to sign in with a password, by the account. The address is counted as well,
// by the middleware or the page.
func (s *Handlers) chargeAccount(c *gin.Context, email string) error {
	if !s.passwords() {
		return nil // PersonalLogin responds
	}
	usual, err := s.SignIn.UsualAddress(c.Request.Context(), email, request.Client(c.Request))
	if err != nil {
		return err
	}
	return s.Chain.ChargeAccount(c, email, usual)
}

// fromBrowser returns whether a browser sent the request. Only browsers send these headers, and with
// every write.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// RefreshToken handles POST /api/v1/auth/token/refresh.
func (s *Handlers) RefreshToken(ctx context.Context, req oapi.RefreshTokenRequestObject) (oapi.RefreshTokenResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	if req.Body != nil && request.Or(req.Body.RefreshToken, "") != "" {
		return s.refreshProgram(ctx, c, *req.Body.RefreshToken)
	}
	token, err := s.Chain.Token(c, r)
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return nil, errs.New(errs.TokenMissing, "the request has no refresh_token and no session")
	case r.ByCookie:
		if err := request.SameOrigin(c.Request); err != nil {
			return nil, err
		}
	}
	u, err := s.SignIn.RefreshSession(ctx, token, origin(c))
	if err != nil {
		if r.ByCookie && response.StatusOf(errs.CodeOf(err)) == http.StatusUnauthorized {
			forget(c)
		}
		return nil, err
	}
	return oapi.RefreshToken200JSONResponse{User: new(s.toPerson(u))}, nil
}

func (s *Handlers) refreshProgram(ctx context.Context, c *gin.Context, refresh string) (oapi.RefreshTokenResponseObject, error) {
	g, u, err := s.SignIn.RefreshProgram(ctx, refresh, origin(c))
	if err != nil {
		return nil, err
	}
	return oapi.RefreshToken200JSONResponse{
		AccessToken: &g.Access, RefreshToken: response.OrNil(g.Refresh), User: new(s.toPerson(u)),
		ExpiresIn: new(int(max(g.Until.Sub(s.Clock.Now()), 0) / time.Second)),
	}, nil
}

// Logout handles POST /api/v1/auth/logout.
func (s *Handlers) Logout(ctx context.Context, req oapi.LogoutRequestObject) (oapi.LogoutResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	token, err := s.Chain.Token(c, r)
	if err != nil {
		return nil, err
	}
	refresh := ""
	if req.Body != nil {
		refresh = request.Or(req.Body.RefreshToken, "")
	}
	out, err := s.logout(ctx, c, r.Caller, token, refresh)
	if err != nil {
		return nil, err
	}
	if out.Later() {
		return oapi.Logout202Response{}, nil
	}
	return oapi.Logout204Response{}, nil
}

// logout ends the session here, whatever the provider does, because a token of the provider alone
// gives no access.
func (s *Handlers) logout(ctx context.Context, c *gin.Context, who identity.Caller, token, refresh string) (signin.SignedOut, error) {
	out, err := s.SignIn.Logout(ctx, who, token, refresh)
	if out.Pending != nil {
		s.Chain.Log.WarnContext(ctx, "refresh token not revoked at the provider yet", slog.Any("err", out.Pending))
	}
	if err == nil || errs.CodeOf(err) == errs.ProviderFailed {
		forget(c)
	}
	return out, err
}

// SetPassword handles PUT /api/v1/users/me/password.
func (s *Handlers) SetPassword(ctx context.Context, req oapi.SetPasswordRequestObject) (oapi.SetPasswordResponseObject, error) {
	ctx, r := request.Of(ctx)
	err := s.SignIn.SetPassword(ctx, r.Caller, request.Or(req.Body.Current, ""), req.Body.Password, request.Or(req.Body.EndApiKeys, true))
	if err != nil {
		return nil, err
	}
	return oapi.SetPassword204Response{}, nil
}

// MintServiceAccountToken handles POST /api/v1/service-accounts/token.
func (s *Handlers) MintServiceAccountToken(ctx context.Context, req oapi.MintServiceAccountTokenRequestObject) (oapi.MintServiceAccountTokenResponseObject, error) {
	ctx, _ = request.Of(ctx)
	b := req.Body
	scopes, audience := request.ScopeNames(request.Or(b.Scopes, nil)), request.Or(b.Audience, "")
	var m signin.Minted
	var err error
	switch {
	case b.Secret != nil && b.JobToken == nil && b.ServiceAccountId == nil:
		m, err = s.SignIn.MintToken(ctx, *b.Secret, scopes, audience)
	case b.Secret == nil && b.JobToken != nil && b.ServiceAccountId != nil:
		m, err = s.SignIn.MintTokenForJob(ctx, *b.JobToken, ids.From[ids.ServiceAccount](*b.ServiceAccountId), scopes, audience)
	default:
		err = errs.Invalid("secret", "send either secret, or job_token and service_account_id")
	}
	if err != nil {
		return nil, err
	}
	return oapi.MintServiceAccountToken200JSONResponse{AccessToken: m.Token, TokenType: oapi.Bearer, ExpiresIn: int(m.For / time.Second), Scopes: response.Scopes(m.Scopes)}, nil
}

// GetTokenKeys handles GET /.well-known/jwks.json.
func (s *Handlers) GetTokenKeys(context.Context, oapi.GetTokenKeysRequestObject) (oapi.GetTokenKeysResponseObject, error) {
	keys := oapi.GetTokenKeys200JSONResponse{Keys: []oapi.TokenKey{}}
	text, err := s.TokenKeys()
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		return nil, fmt.Errorf("showing the keys of tokens: %w", err)
	}
	return keys, nil
}

func (s *Handlers) toPerson(u identity.User) oapi.UserSummary {
	return oapi.UserSummary{Id: u.ID.UUID, Urn: u.URN(s.Naming), Email: u.Email, Name: u.Name, Role: u.Role, Version: &u.Version}
}
