package signin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// Mount adds the pages of the sign-in to the router.
func (s *Handlers) Mount(e *gin.Engine) {
	e.GET("/sign-in", s.showSignIn)
	e.POST("/sign-in", s.signIn)
	e.POST("/sign-out", s.signOut)
	e.GET("/auth/callback", s.callback)
	e.GET(signin.FirstAdminPath, s.showFirstAdmin)
	e.POST(signin.FirstAdminPath, s.firstAdmin)
}

// showSignIn redirects to the provider, or shows the form for a password where passwords are allowed.
func (s *Handlers) showSignIn(c *gin.Context) {
	back := page.ReturnTo(c.Query("return"))
	switch {
	case !s.Offered():
		s.Chain.NoRoute(c)
	case s.passwords():
		s.askPassword(c, http.StatusOK, back, "")
	default:
		c.Redirect(http.StatusFound, authorizePath(back, c.Query("step_up") == "true"))
	}
}

func authorizePath(back string, stepUp bool) string {
	path := "/api/v1/auth/oidc/authorize?return_to=" + url.QueryEscape(back)
	if stepUp {
		path += "&step_up=true"
	}
	return path
}

// askPassword shows the sign-in page, with the error of the last try.
func (s *Handlers) askPassword(c *gin.Context, status int, back, wrong string) {
	data := map[string]any{"Passwords": s.passwords(), "Return": back, "Wrong": wrong}
	if s.Provider != nil {
		data["Provider"] = authorizePath(back, c.Query("step_up") == "true")
	}
	s.Pages.WriteWithPolicy(c, status, page.ContentSecurityPolicy, signInPage, data)
}

// signIn handles the form of the sign-in page. The form must be on a page of this server, so that
// a page elsewhere cannot sign its visitor in.
func (s *Handlers) signIn(c *gin.Context) {
	if !s.passwords() {
		s.Chain.NoRoute(c)
		return
	}
	back := page.ReturnTo(c.PostForm("return"))
	s.enter(c, back, func() (signin.Started, error) {
		if err := s.chargeAccount(c, c.PostForm("email")); err != nil {
			return signin.Started{}, err
		}
		return s.SignIn.PersonalLogin(c.Request.Context(), c.PostForm("email"), c.PostForm("password"), "browser", origin(c))
	}, func(status int, wrong string) { s.askPassword(c, status, back, wrong) })
}

// enter signs in with a form. It shows errors of the form on its page.
func (s *Handlers) enter(c *gin.Context, back string, in func() (signin.Started, error), again func(status int, wrong string)) {
	err := errors.Join(request.SameOrigin(c.Request), s.Chain.Charge(c, request.ClassSignIn, identity.Caller{}))
	if err != nil {
		s.Chain.Fail(c, err)
		return
	}
	started, err := in()
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.LoginFailed {
		again(response.StatusOf(e.Code), e.Message)
		return
	}
	if err != nil {
		s.Chain.Fail(c, err)
		return
	}
	s.setCookie(c, started)
	c.Redirect(http.StatusSeeOther, back)
}

// callback ends a sign-in to which the provider has responded.
func (s *Handlers) callback(c *gin.Context) {
	if s.Provider == nil {
		s.Chain.NoRoute(c)
		return
	}
	if err := s.Chain.Charge(c, request.ClassSignIn, identity.Caller{}); err != nil {
		s.Chain.Fail(c, err)
		return
	}
	p, err := s.answered(c)
	if errs.CodeOf(err) == errs.StepUpRequired && !p.StepUp {
		// The role was not known before the sign-in. The second one requests the second factor.
		c.Redirect(http.StatusSeeOther, authorizePath(p.Return, true))
		return
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && response.StatusOf(e.Code) < http.StatusInternalServerError {
		s.Chain.Log.WarnContext(c.Request.Context(), "sign-in failed", "code", e.Code, "err", err)
		s.askPassword(c, response.StatusOf(e.Code), "/", e.Message)
		return
	}
	if err != nil {
		s.Chain.Fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, page.ReturnTo(p.Return))
}

// providerErrors explain the errors of a provider (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6).
var providerErrors = map[string]string{
	"access_denied":              "the identity provider denied the sign-in, or you cancelled it",
	"login_required":             "the identity provider requires a new sign-in",
	"interaction_required":       "the identity provider requires a new sign-in",
	"account_selection_required": "the identity provider requires the choice of an account",
	"consent_required":           "the identity provider requires your consent",
	"temporarily_unavailable":    "the identity provider is temporarily unavailable",
	"server_error":               "the identity provider reports an error of its own",
	"unauthorized_client":        "the identity provider does not allow this installation to sign users in",
	"invalid_client":             "the identity provider does not accept this installation",
	"invalid_scope":              "the identity provider does not grant the scopes of this installation",
	"unsupported_response_type":  "the identity provider does not support the authorization code flow",
	"invalid_request":            "the identity provider does not accept the request of this installation",
}

// maxProviderText limits the text of the provider in the log.
const maxProviderText = 300

// signInRejected returns the error of a sign-in that the provider has rejected. The page repeats no text of the provider,
// because anybody can write such a link; the log does.
func signInRejected(code, description string) error {
	why, ok := providerErrors[code]
	if !ok {
		why = "the identity provider did not sign you in"
	}
	return errs.New(errs.LoginFailed, "%s", why).
		Because(errs.New(errs.LoginFailed, "error %.*q, %.*q", maxProviderText, code, maxProviderText, description))
}

// answered reads the response of the provider.
func (s *Handlers) answered(c *gin.Context) (p pending, err error) {
	state := c.Query("state")
	if c.Query("code") == "" {
		if p, err = s.consume(c.Writer, c.Request, state); err != nil {
			return p, err
		}
		return p, signInRejected(c.Query("error"), c.Query("error_description"))
	}
	_, p, err = s.finish(c.Request.Context(), c, c.Query("code"), state)
	return p, err
}

// signOut ends the session of this browser.
func (s *Handlers) signOut(c *gin.Context) {
	token, err := request.SessionToken(c.Request)
	if err = errors.Join(err, request.SameOrigin(c.Request)); err != nil {
		s.Chain.Fail(c, err)
		return
	}
	if token != "" {
		_, r := request.Of(c)
		who, err := s.Chain.Leaving(c, r)
		if err != nil && response.StatusOf(errs.CodeOf(err)) >= http.StatusInternalServerError {
			s.Chain.Fail(c, err)
			return
		}
		out, err := s.logout(c.Request.Context(), c, who, token, "")
		if err != nil {
			s.Chain.Fail(c, err)
			return
		}
		s.signedOut(c, out)
		return
	}
	forget(c)
	c.Redirect(http.StatusSeeOther, "/")
}

// signedOut leads the browser to the sign-out of the provider. It is a page, because browsers do not follow the
// redirect of a form to another server.
func (s *Handlers) signedOut(c *gin.Context, out signin.SignedOut) {
	home := strings.TrimSuffix(callbackOf(c.Request), "/auth/callback") + "/"
	to := s.SignIn.SignOutURL(c.Request.Context(), out.IDToken, home)
	if to == "" && out.Pending == nil {
		c.Redirect(http.StatusSeeOther, "/")
		return
	}
	if to != "" {
		c.Header("Refresh", "0; url="+to)
	}
	s.Pages.WriteWithPolicy(c, http.StatusOK, page.ContentSecurityPolicy, signedOutPage, map[string]any{"Provider": to, "Pending": out.Pending != nil})
}

func (s *Handlers) showFirstAdmin(c *gin.Context) { s.askCode(c, http.StatusOK, "") }

func (s *Handlers) askCode(c *gin.Context, status int, wrong string) {
	s.Pages.WriteWithPolicy(c, status, page.ScriptPolicy, firstAdminPage, map[string]any{"Wrong": wrong})
}

// firstAdmin signs in with the code that the operator of the installation received.
func (s *Handlers) firstAdmin(c *gin.Context) {
	s.enter(c, "/", func() (signin.Started, error) {
		return s.SignIn.UseLink(c.Request.Context(), c.PostForm("code"), origin(c))
	}, func(status int, wrong string) { s.askCode(c, status, wrong) })
}
