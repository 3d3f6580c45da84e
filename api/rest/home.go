package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/portal"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/web"
)

var homePage = web.MustPage("home")

func (s *Server) mountPages(e *gin.Engine, docs reference.Pages) {
	e.GET("/", s.home)
	e.POST("/invitations/:id", s.rejectWrites, s.answerInvitation)
	s.signin.Mount(e)
	e.GET(payment.PagePath+":id", s.payment)
	e.GET(mail.UnsubscribePath, s.showUnsubscribe)
	e.POST(mail.UnsubscribePath, s.rejectWrites, s.unsubscribe)
	for path, f := range map[string]struct {
		contentType string
		content     []byte
	}{
		"/assets/style.css":      {"text/css; charset=utf-8", web.Style},
		"/assets/first-admin.js": {"text/javascript; charset=utf-8", web.FirstAdmin},
		"/api/openapi.json":      {"application/json", docs.Contract},
		"/api/asyncapi.json":     {"application/json", docs.Messages},
		"/api/docs":              {"text/html; charset=utf-8", docs.API},
		"/api/events":            {"text/html; charset=utf-8", docs.Events},
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

// rejectWrites rejects the form of a page while a restore of the database is not confirmed.
func (s *Server) rejectWrites(c *gin.Context) {
	if err := s.Restore.Err(); err != nil {
		s.chain.Fail(c, err)
	}
}

func (s *Server) home(c *gin.Context) {
	caller, err := s.pages.Visitor(c)
	if err != nil && response.StatusOf(errs.CodeOf(err)) != http.StatusUnauthorized {
		s.chain.Fail(c, err)
		return
	}
	if err == nil && s.inPortal(c) {
		c.Redirect(http.StatusFound, portal.Path+screens[c.Query("to")])
		return
	}
	data := map[string]any{"SignIn": s.signin.Offered()}
	if err == nil {
		data["Caller"] = caller
		if data["Invitations"], err = s.Services.Identity.OwnInvitations(c.Request.Context(), caller, ids.Invitation{}, invitationsShown); err != nil {
			s.chain.Fail(c, err)
			return
		}
	}
	s.pages.Write(c, homePage, data)
}

// screens are those to which other sites link through the home page, which exists without the portal, too.
var screens = map[string]string{"billing": "billing"}

// inPortal returns whether the portal covers a page. A browser without scripts requests script=off.
func (s *Server) inPortal(c *gin.Context) bool {
	return s.Portal != nil && s.Portal.Built() && c.Query("script") != "off"
}

// payment redirects the browser, which the payment provider has sent, to the screen with the outcome.
func (s *Server) payment(c *gin.Context) {
	if s.inPortal(c) {
		to := url.URL{Path: portal.Path + "payments/" + c.Param("id"), RawQuery: c.Request.URL.RawQuery}
		c.Redirect(http.StatusFound, to.String())
		return
	}
	s.money.ShowPayment(c)
}

// invitationsShown bounds the invitations of one page.
const invitationsShown = 20

// answerInvitation handles the form of an invitation on the home page.
func (s *Server) answerInvitation(c *gin.Context) {
	caller, err := s.pages.Visitor(c)
	if err != nil {
		s.pages.AskToSignIn(c, err)
		return
	}
	id, err := ids.Parse[ids.Invitation](c.Param("id"))
	if err != nil {
		err = errs.Invalid("id", "is not a UUID")
	} else {
		err = request.SameOrigin(c.Request)
	}
	answer := map[string]func(context.Context, identity.Change[struct{}], ids.Invitation) error{
		"accept": s.Services.Identity.AcceptInvitation, "decline": s.Services.Identity.DeclineInvitation,
	}[c.PostForm("answer")]
	switch {
	case err != nil:
	case answer == nil:
		err = errs.Invalid("answer", "must be accept or decline")
	case caller.Limited:
		err = errs.New(errs.Forbidden, "a key with scopes answers no invitation")
	default:
		err = answer(c.Request.Context(), identity.Change[struct{}]{Caller: caller}, id)
	}
	if err != nil {
		s.chain.Fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, "/")
}
