package rest

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// showSignIn leads to the provider, or asks for a password where there are some.
func (s *Server) showSignIn(c *gin.Context) {
	back := returnTo(c.Query("return"))
	switch {
	case !s.maySignIn():
		s.noRoute(c)
	case s.passwords():
		s.askPassword(c, http.StatusOK, back, "")
	default:
		c.Redirect(http.StatusFound, authorizePath(back))
	}
}

func authorizePath(back string) string {
	return "/api/v1/auth/oidc/authorize?return_to=" + url.QueryEscape(back)
}

// askPassword shows the sign-in page, with what was wrong the last time.
func (s *Server) askPassword(c *gin.Context, status int, back, wrong string) {
	data := map[string]any{"Passwords": s.passwords(), "Return": back, "Wrong": wrong}
	if s.OIDC != nil {
		data["Provider"] = authorizePath(back)
	}
	s.writeUnder(c, status, pagePolicy, s.pages.signIn, data)
}

// signIn takes the form. A page elsewhere must not sign its visitor in as
// somebody, so the form must come from ours.
func (s *Server) signIn(c *gin.Context) {
	if !s.passwords() {
		s.noRoute(c)
		return
	}
	back := returnTo(c.PostForm("return"))
	s.enter(c, back, func() (identity.Started, error) {
		return s.Identity.PersonalLogin(c.Request.Context(), c.PostForm("email"), c.PostForm("password"), "browser", origin(c))
	}, func(status int, wrong string) { s.askPassword(c, status, back, wrong) })
}

// enter signs in with a form. What the form got wrong is said on its page.
func (s *Server) enter(c *gin.Context, back string, in func() (identity.Started, error), again func(status int, wrong string)) {
	err := errors.Join(sameOrigin(c.Request), s.charge(c, ClassSignIn, identity.Caller{}))
	if err != nil {
		s.fail(c, err)
		return
	}
	started, err := in()
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.LoginFailed {
		again(statusOf(e.Code), e.Message)
		return
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.remember(c, started)
	c.Redirect(http.StatusSeeOther, back)
}

// callback finishes a sign-in that the provider has answered.
func (s *Server) callback(c *gin.Context) {
	if s.OIDC == nil {
		s.noRoute(c)
		return
	}
	if err := s.charge(c, ClassSignIn, identity.Caller{}); err != nil {
		s.fail(c, err)
		return
	}
	back, err := s.answered(c)
	if e, ok := errors.AsType[*errs.Error](err); ok && statusOf(e.Code) < http.StatusInternalServerError {
		s.askPassword(c, statusOf(e.Code), "/", e.Message)
		return
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, returnTo(back))
}

// answered reads the provider's answer. Its words are not repeated: whoever made
// the link has chosen them.
func (s *Server) answered(c *gin.Context) (back string, err error) {
	state := c.Query("state")
	if c.Query("code") == "" {
		if _, err := s.take(c.Writer, c.Request, state); err != nil {
			return "", err
		}
		return "", errs.New(errs.LoginFailed, "the sign-in provider did not sign you in")
	}
	_, back, err = s.finish(c.Request.Context(), c, c.Query("code"), state)
	return back, err
}

// signOut ends the session of this browser.
func (s *Server) signOut(c *gin.Context) {
	token, err := sessionOf(c.Request)
	if err = errors.Join(err, sameOrigin(c.Request)); err != nil {
		s.fail(c, err)
		return
	}
	if token != "" {
		who, err := s.visitor(c)
		if err != nil && statusOf(errs.CodeOf(err)) >= http.StatusInternalServerError {
			s.fail(c, err)
			return
		}
		if err := s.logout(c.Request.Context(), c, who, token, ""); err != nil {
			s.fail(c, err)
			return
		}
	}
	forget(c)
	c.Redirect(http.StatusSeeOther, "/")
}

func (s *Server) showFirstAdmin(c *gin.Context) { s.askCode(c, http.StatusOK, "") }

func (s *Server) askCode(c *gin.Context, status int, wrong string) {
	s.writeUnder(c, status, scriptPolicy, s.pages.firstAdmin, map[string]any{"Wrong": wrong})
}

// firstAdmin signs in with the code that the installation's owner was shown.
func (s *Server) firstAdmin(c *gin.Context) {
	s.enter(c, "/", func() (identity.Started, error) {
		return s.Identity.UseLink(c.Request.Context(), c.PostForm("code"), origin(c))
	}, func(status int, wrong string) { s.askCode(c, status, wrong) })
}
