package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// RiverPath is where the jobs are shown.
const RiverPath = "/admin/river"

// River's page brings its own script and styles, which set attributes of style.
const riverPolicy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"

// mountRiver puts the job pages behind our sign-in: they have none of their own.
func (s *Server) mountRiver(e *gin.Engine) {
	if s.RiverUI == nil {
		return
	}
	e.Any(RiverPath, func(c *gin.Context) { c.Redirect(http.StatusFound, RiverPath+"/") })
	e.Any(RiverPath+"/*any", s.guardRiver, gin.WrapH(s.RiverUI))
}

// guardRiver lets operators look and admins act.
func (s *Server) guardRiver(c *gin.Context) {
	caller, err := s.visitor(c)
	if err != nil {
		s.askToSignIn(c, err)
		return
	}
	reads := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
	switch {
	// The jobs are no operation of the contract, so no key's scopes list them.
	case held(caller)&fleetRoles == 0 || caller.Limited:
		err = errs.New(errs.Forbidden, "only operators see the jobs")
	case caller.Limited: // no scope is about jobs
		err = errs.New(errs.Forbidden, "the scopes of this token do not allow this").Try("use a token without scopes")
	case !reads:
		err = s.admitRiverWrite(c, caller)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Header("Content-Security-Policy", riverPolicy)
	c.Next()
}

// admitRiverWrite records the act before it happens: afterwards is too late for
// one whose answer got lost.
func (s *Server) admitRiverWrite(c *gin.Context, caller identity.Caller) error {
	if held(caller)&platformAdmin == 0 || s.Audit == nil {
		return errs.New(errs.Forbidden, "operators can only read jobs").Try("contact an administrator")
	}
	_, r := of(c)
	if r.byCookie {
		if err := sameOrigin(c.Request); err != nil {
			return err
		}
	}
	what := strings.TrimPrefix(c.Request.URL.Path, RiverPath)
	return s.Audit(c.Request.Context(), caller, "river."+strings.ToLower(c.Request.Method), what)
}

// askToSignIn sends people to the sign-in and programs an error.
func (s *Server) askToSignIn(c *gin.Context, err error) {
	wantsPage := c.Request.Method == http.MethodGet && strings.Contains(c.GetHeader("Accept"), "text/html")
	if statusOf(errs.CodeOf(err)) == http.StatusUnauthorized && wantsPage && s.maySignIn() {
		c.Redirect(http.StatusFound, "/sign-in?return="+url.QueryEscape(c.Request.URL.Path))
		c.Abort()
		return
	}
	s.fail(c, err)
}
