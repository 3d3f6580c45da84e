// Package signin serves the sign-in by the OIDC provider, by password and by the link of the first
// administrator, for browsers and programs.
package signin

import (
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/services"
	"github.com/gpuaas/gpuaas/web"
)

// Config contains the dependencies of the sign-in handlers.
type Config struct {
	*services.Services

	// Provider is the OIDC provider; nil without one. Options describes it to clients.
	Provider Provider
	Options  Options
	// TokenKeys returns the JWKS of the tokens that this server signs.
	TokenKeys func() ([]byte, error)
	// CookieKeys seal the cookies of sign-ins in progress; every replica needs the same.
	CookieKeys *envelope.Ring
	Chain      *middleware.Chain
}

// Handlers implements the operations of the sign-in.
type Handlers struct {
	Config

	Pages *page.Writer
}

// New returns the handlers.
func New(cfg Config) *Handlers {
	s := &Handlers{Config: cfg}
	s.Pages = &page.Writer{Chain: cfg.Chain, SignInOffered: s.Offered}
	return s
}

var signInPage, signedOutPage, firstAdminPage = web.MustPage("signin"), web.MustPage("signedout"), web.MustPage("firstadmin")
