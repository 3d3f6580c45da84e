package rest

import (
	"bytes"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/web"
)

// pages are what a browser finds where there is no portal.
type pages struct{ home, signIn, firstAdmin, payment, statement *template.Template }

func newPages() (p *pages, err error) {
	p = &pages{}
	for name, to := range map[string]**template.Template{
		"home": &p.home, "signin": &p.signIn, "firstadmin": &p.firstAdmin, "payment": &p.payment, "statement": &p.statement,
	} {
		if *to, err = web.Page(name, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

const (
	// Nothing but our own style and forms: no script at all.
	pagePolicy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	// A code after the # reaches no server and no log, and only a script can read it.
	scriptPolicy = pagePolicy + "; script-src 'self'"
)

func (s *Server) mountPages(e *gin.Engine, docs reference.Pages) {
	e.GET("/", s.home)
	e.GET("/sign-in", s.showSignIn)
	e.POST("/sign-in", s.signIn)
	e.POST("/sign-out", s.signOut)
	e.GET("/auth/callback", s.callback)
	e.GET(identity.FirstAdminPath, s.showFirstAdmin)
	e.POST(identity.FirstAdminPath, s.firstAdmin)
	e.GET(payment.PagePath+":id", s.showPayment)
	for path, f := range map[string]struct {
		contentType string
		content     []byte
	}{
		"/assets/style.css":      {"text/css; charset=utf-8", web.Style},
		"/assets/first-admin.js": {"text/javascript; charset=utf-8", web.FirstAdmin},
		"/api/openapi.json":      {"application/json", docs.Contract},
		"/api/docs":              {"text/html; charset=utf-8", docs.API},
		reference.Path:           {"text/html; charset=utf-8", docs.Errors},
	} {
		serve := func(c *gin.Context) {
			c.Header("Content-Security-Policy", pagePolicy)
			c.Header("Cache-Control", "no-cache")
			c.Data(http.StatusOK, f.contentType, f.content)
		}
		e.GET(path, serve)
		e.HEAD(path, serve)
	}
}

func (s *Server) home(c *gin.Context) {
	caller, err := s.visitor(c)
	if err != nil && statusOf(errs.CodeOf(err)) != http.StatusUnauthorized {
		s.fail(c, err)
		return
	}
	data := map[string]any{"SignIn": s.maySignIn()}
	if err == nil {
		data["Caller"] = caller
	}
	s.write(c, s.pages.home, data)
}

// visitor is who is signed in at a page.
func (s *Server) visitor(c *gin.Context) (identity.Caller, error) {
	_, r := of(c)
	caller, err := s.callerOf(c, r)
	caller.CorrelationID = r.correlation
	return caller, err
}

func (s *Server) write(c *gin.Context, t *template.Template, data any) {
	s.writeUnder(c, http.StatusOK, pagePolicy, t, data)
}

func (s *Server) writeUnder(c *gin.Context, status int, policy string, t *template.Template, data any) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		s.Log.ErrorContext(c.Request.Context(), "rendering a page", slog.Any("err", err))
		s.fail(c, err)
		return
	}
	c.Header("Content-Security-Policy", policy)
	c.Header("Referrer-Policy", "same-origin")
	c.Header("Cache-Control", "no-store")
	c.Data(status, pageType, out.Bytes())
}

const pageType = "text/html; charset=utf-8"

// returnTo keeps a redirect on this site. Browsers read a backslash as a slash and
// leave tabs and line breaks out: /<tab>/host is another site to them.
func returnTo(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, leadsAway) {
		return "/"
	}
	return path
}

func leadsAway(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
