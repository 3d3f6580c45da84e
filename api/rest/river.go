package rest

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// RiverPath is the path of the pages about jobs.
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

// guardRiver lets operators read the jobs, and administrators change them.
func (s *Server) guardRiver(c *gin.Context) {
	caller, err := s.pages.Visitor(c)
	if err != nil {
		s.pages.AskToSignIn(c, err)
		return
	}
	reads := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
	switch {
	// The jobs are no operation of the contract, so no key's scopes list them.
	case request.RolesOf(caller)&request.FleetRoles == 0 || caller.Limited:
		err = errs.New(errs.Forbidden, "only operators see the jobs")
	case !reads:
		err = s.admitRiverWrite(c, caller)
	}
	if err != nil {
		s.chain.Fail(c, err)
		return
	}
	c.Header("Content-Security-Policy", riverPolicy)
	c.Next()
}

// admitRiverWrite writes the audit row before the change, because the response to the change may be
// lost.
func (s *Server) admitRiverWrite(c *gin.Context, caller identity.Caller) error {
	if request.RolesOf(caller)&request.PlatformAdmin == 0 {
		return errs.New(errs.Forbidden, "operators can only read jobs").Try("contact an administrator")
	}
	if err := s.Restore.Err(); err != nil {
		return err
	}
	_, r := request.Of(c)
	if r.ByCookie {
		if err := request.SameOrigin(c.Request); err != nil {
			return err
		}
	}
	what := strings.TrimPrefix(c.Request.URL.Path, RiverPath)
	return recordPlatformAction(c.Request.Context(), s.Services.DB, caller, "river."+strings.ToLower(c.Request.Method), what)
}
