package rest

import (
	"bytes"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/web"
)

// pages are what a browser finds where there is no portal.
type pages struct{ home, signIn *template.Template }

func newPages() (*pages, error) {
	home, err := web.Page("home", nil)
	signIn, bad := web.Page("signin", nil)
	return &pages{home, signIn}, errors.Join(err, bad)
}

// Nothing but our own style and forms: no script at all.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (s *Server) mountPages(e *gin.Engine, docs reference.Pages) {
	e.GET("/", s.home)
	e.GET("/sign-in", s.showSignIn)
	e.POST("/sign-in", s.signIn)
	e.POST("/sign-out", s.signOut)
	for path, f := range map[string]struct {
		contentType string
		content     []byte
	}{
		"/assets/style.css": {"text/css; charset=utf-8", web.Style},
		"/api/openapi.json": {"application/json", docs.Contract},
		"/api/docs":         {"text/html; charset=utf-8", docs.API},
		reference.Path:      {"text/html; charset=utf-8", docs.Errors},
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
	data := map[string]any{"Development": s.mayPickPerson(c.Request)}
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

func (s *Server) showSignIn(c *gin.Context) {
	if !s.mayPickPerson(c.Request) {
		s.noRoute(c)
		return
	}
	people, err := s.Identity.People(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	s.write(c, s.pages.signIn, map[string]any{"People": people, "Return": returnTo(c.Query("return"))})
}

// signIn makes a session for the chosen person. A page elsewhere must not sign
// its visitor in as somebody, so the form must come from ours.
func (s *Server) signIn(c *gin.Context) {
	if !s.mayPickPerson(c.Request) {
		s.noRoute(c)
		return
	}
	err := errors.Join(sameOrigin(c.Request), s.charge(c, ClassSignIn, identity.Caller{}))
	if err != nil {
		s.fail(c, err)
		return
	}
	person, err := s.person(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	token, err := s.Identity.Session(c.Request.Context(), person, sessionFor)
	if err != nil {
		s.fail(c, err)
		return
	}
	http.SetCookie(c.Writer, sessionCookie(c.Request, token))
	c.Redirect(http.StatusSeeOther, returnTo(c.PostForm("return")))
}

// person is one of those on the page: the form alone proves nothing.
func (s *Server) person(c *gin.Context) (ids.User, error) {
	asked := c.PostForm("user")
	people, err := s.Identity.People(c.Request.Context())
	if err != nil {
		return ids.User{}, err
	}
	for _, p := range people {
		if p.ID.String() == asked {
			return p.ID, nil
		}
	}
	return ids.User{}, errs.Invalid("user", "is nobody of this installation")
}

func (s *Server) signOut(c *gin.Context) {
	if err := sameOrigin(c.Request); err != nil {
		s.fail(c, err)
		return
	}
	token, err := sessionOf(c.Request)
	if err != nil {
		s.fail(c, err)
		return
	}
	if token != "" {
		if err := s.Identity.EndSession(c.Request.Context(), token); err != nil {
			s.fail(c, err)
			return
		}
	}
	gone := sessionCookie(c.Request, "") //nolint:gosec // Secure wherever the request came over TLS
	gone.MaxAge = -1
	http.SetCookie(c.Writer, gone)
	c.Redirect(http.StatusSeeOther, "/")
}

func (s *Server) write(c *gin.Context, t *template.Template, data any) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		s.Log.ErrorContext(c.Request.Context(), "rendering a page", slog.Any("err", err))
		s.fail(c, err)
		return
	}
	c.Header("Content-Security-Policy", pagePolicy)
	c.Header("Referrer-Policy", "same-origin")
	c.Data(http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

// returnTo keeps a redirect on this site.
func returnTo(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return "/"
	}
	return path
}
