package rest

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/web"
)

var homePage = web.MustPage("home")

func (s *Server) mountPages(e *gin.Engine, docs reference.Pages) {
	e.GET("/", s.home)
	s.signin.Mount(e)
	e.GET(payment.PagePath+":id", s.money.ShowPayment)
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
			c.Header("Content-Security-Policy", page.ContentSecurityPolicy)
			c.Header("Cache-Control", "no-cache")
			c.Data(http.StatusOK, f.contentType, f.content)
		}
		e.GET(path, serve)
		e.HEAD(path, serve)
	}
}

func (s *Server) home(c *gin.Context) {
	caller, err := s.pages.Visitor(c)
	if err != nil && response.StatusOf(errs.CodeOf(err)) != http.StatusUnauthorized {
		s.chain.Fail(c, err)
		return
	}
	data := map[string]any{"SignIn": s.signin.Offered()}
	if err == nil {
		data["Caller"] = caller
	}
	s.pages.Write(c, homePage, data)
}
