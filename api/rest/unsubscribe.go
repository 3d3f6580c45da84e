package rest

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/web"
)

var unsubscribePage = web.MustPage("unsubscribe")

// showUnsubscribe shows what a link of an e-mail ends, and changes nothing: programs that check e-mails open links.
func (s *Server) showUnsubscribe(c *gin.Context) {
	s.subscription(c, c.Query("link"), func(link string) (notification.Subscription, error) {
		return s.Services.Notifications.Subscription(c.Request.Context(), link)
	})
}

// unsubscribe handles the form of that page, and the one-click request of mail programs (RFC 8058), which has the link in the
// URL. The link is the only credential, so that a page elsewhere gains nothing by a request.
func (s *Server) unsubscribe(c *gin.Context) {
	link := c.PostForm("link")
	if link == "" {
		link = c.Query("link")
	}
	s.subscription(c, link, func(link string) (notification.Subscription, error) {
		_, r := request.Of(c)
		sub, err := s.Services.Notifications.Unsubscribe(c.Request.Context(), link, audit.By{CorrelationID: r.CorrelationID, Client: request.Client(c.Request)})
		sub.Ended = err == nil
		return sub, err
	})
}

func (s *Server) subscription(c *gin.Context, link string, read func(string) (notification.Subscription, error)) {
	if err := s.chain.Charge(c, request.ClassSignIn, identity.Caller{}); err != nil {
		s.chain.Fail(c, err)
		return
	}
	sub, err := read(link)
	if err != nil {
		s.chain.Fail(c, err)
		return
	}
	s.pages.WriteWithPolicy(c, http.StatusOK, page.ContentSecurityPolicy, unsubscribePage, map[string]any{"Titles": sub.Titles, "Ended": sub.Ended, "Link": link})
}
