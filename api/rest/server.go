// Package rest serves the REST API, the pages for browsers and the pages of the jobs. It builds the
// router; the middlewares, the forms of responses and the handlers of each resource are subpackages.
package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/logs"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/portal"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/rest/signin"
	"github.com/gpuaas/gpuaas/api/rest/storage"
	"github.com/gpuaas/gpuaas/api/rest/support"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/services"
	"github.com/gpuaas/gpuaas/web"
)

// Config has the dependencies of the API. The comment of an optional field states that.
type Config struct {
	Services *services.Services
	// Tasks are the mailboxes of the nodes.
	Tasks *nodetask.Store
	// Installer makes the commands that install agents.
	Installer fleet.Installer
	// Stream sends events to clients.
	Stream *stream.Server
	// Environment and Profile have the values from the start of the server.
	Environment string
	Profile     desired.Environment

	// Provider signs users in; nil without an OIDC provider. SignIn describes it to clients.
	Provider signin.Provider
	SignIn   signin.Options
	// TokenKeys returns the JWKS of the tokens that this server signs.
	TokenKeys func() ([]byte, error)
	// Front is the proxy before the server, if there is one.
	Front middleware.Front
	// CursorKeys seal cursors and cookies of sign-ins in progress; every replica needs the same.
	CursorKeys *envelope.Ring

	// Ready queries PostgreSQL.
	Ready func(context.Context) error
	// Restore is closed while a restore of the database is not confirmed; nil is open.
	Restore *restore.Gate
	// Checks are the entries of getHealthz and getHealthDetails, in this sequence.
	Checks []Check
	// Limits returns the rate limit of a class for a caller; nil means DefaultLimits.
	Limits func(request.Class, identity.Caller) middleware.Limit
	// SharedLimits counts the requests of all replicas; nil means that each replica counts its own.
	SharedLimits middleware.SharedLimits
	// RiverUI serves the pages of the jobs under /admin/river/; nil where no queue runs.
	RiverUI http.Handler
	// Terminals serves the websockets below /ws/terminal/ and /ws/ssh/; nil where another process does.
	Terminals http.Handler
	// Logs reads logs of nodes at terminal servers.
	Logs logs.Reader
	// Portal is served below /portal/; nil serves the API and the pages without scripts.
	Portal *web.Portal
	// Support describes the process in support bundles; nil: they have the sections of the API only.
	Support func() support.Process

	Log   *slog.Logger
	Clock clock.Clock
}

// Server serves every operation of the contract.
type Server struct {
	Config

	handlers oapi.StrictServerInterface
	streams  map[string]bool // paths of responses without an end
	signin   *signinHandlers
	money    *moneyHandlers
	pages    *page.Writer
	chain    *middleware.Chain
	engine   *gin.Engine
	// filesHost is the name and port in the origin of signed URLs; empty: those of the portal.
	filesHost string
}

// New returns an error if the contract or the configuration is incomplete.
func New(c *Contract, cfg Config) (*Server, error) { return NewWith(c, cfg, nil) }

// NewWith is New with a wrapper around the handlers. The bench replaces single operations with it.
func NewWith(c *Contract, cfg Config, wrap func(oapi.StrictServerInterface) oapi.StrictServerInterface) (s *Server, err error) {
	if cfg.CursorKeys == nil {
		return nil, errors.New("rest: CursorKeys are missing")
	}
	s = &Server{Config: cfg, streams: request.StreamsOf(c.Document)}
	if _, host, ok := strings.Cut(cfg.Profile.Storage.PublicURL, "://"); ok {
		s.filesHost = host
	}
	if s.chain, err = middleware.New(middleware.Config{
		Problems: response.Problems{Log: cfg.Log}, Identity: cfg.Services.Identity, SignIn: cfg.Services.SignIn, Keys: cfg.Services.Keys, Front: cfg.Front, Limits: cfg.Limits, SharedLimits: cfg.SharedLimits,
		Roles: func() policies.RoleTable { return cfg.Services.Policies.Latest().Roles }, Notice: middleware.NoticeFrom(cfg.Services.Policies, cfg.Restore.Message), MayWrite: cfg.Restore.Err, Clock: cfg.Clock, Accounts: middleware.Accounts{Keys: cfg.CursorKeys},
	}, c.Document); err != nil {
		return nil, err
	}
	s.signin = signin.New(signin.Config{
		Services: cfg.Services, Provider: cfg.Provider, Options: cfg.SignIn, TokenKeys: cfg.TokenKeys, CookieKeys: cfg.CursorKeys, Chain: s.chain,
	})
	s.pages = s.signin.Pages
	all := s.newHandlers()
	s.handlers, s.money = all, all.moneyHandlers
	if wrap != nil {
		s.handlers = wrap(s.handlers)
	}
	return s, s.mount(c.pages)
}

// mount builds the routes.
func (s *Server) mount(docs reference.Pages) error {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	// Without it the context of handlers would hide cancellation, trace and caller.
	e.ContextWithFallback = true
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	// A slash that is written as %2F is part of a name. It leads to no other path than a proxy before
	// this server has checked.
	e.UseRawPath = true
	if err := e.SetTrustedProxies(nil); err != nil {
		return err
	}
	// Spans without an exporter cost two dozen allocations per request. The trace that a client sends
	// is carried on without them.
	if telemetry.On() {
		e.Use(otelgin.Middleware("gpuaas"))
	}
	e.Use(s.chain.Global()...)
	e.Use(s.confineFiles)
	e.NoRoute(s.chain.NoRoute)
	e.NoMethod(s.chain.NoMethod)

	api := e.Group("/", s.chain.Admit)
	strict := oapi.NewStrictHandlerWithOptions(s.handlers, nil, oapi.StrictGinServerOptions{
		RequestErrorHandlerFunc:  s.chain.BadRequest,
		HandlerErrorFunc:         s.chain.ReplayOrFail,
		ResponseErrorHandlerFunc: s.chain.Fail,
	})
	oapi.RegisterHandlersWithOptions(api, strict, oapi.GinServerOptions{
		ErrorHandler: func(c *gin.Context, err error, _ int) { s.chain.BadRequest(c, err) },
	})

	s.mountPages(e, docs)
	s.mountRiver(e)
	if s.Portal != nil {
		portal.Mount(e, s.Portal, s.chain.NoRoute)
	}
	s.engine = e
	return nil
}

// Handlers returns the handlers of all operations, without middlewares.
func (s *Server) Handlers() oapi.StrictServerInterface { return s.handlers }

// Handler serves all paths.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// HTTPServer returns a server for all paths with every timeout set.
func (s *Server) HTTPServer() *http.Server { return s.chain.Server(s.Handler()) }

// ShareLimits exchanges rate limits with the other replicas until ctx ends.
func (s *Server) ShareLimits(ctx context.Context) error { return s.chain.ShareLimits(ctx) }

// Limiter returns the rate limits, for another listener.
func (s *Server) Limiter() *middleware.Chain { return s.chain }

// Metrics returns the metrics of the API.
func (s *Server) Metrics() prometheus.Collector { return s.chain }

// serve answers HEAD as GET without its body; net/http omits the body itself, other writers may not. A
// stream has no end that one could wait for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.toFiles(r) && s.Terminals != nil && (strings.HasPrefix(r.URL.Path, "/ws/terminal/") || strings.HasPrefix(r.URL.Path, "/ws/ssh/")) {
		s.Terminals.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodHead && !s.streams[r.URL.Path] && !strings.HasSuffix(r.URL.Path, "/logs") {
		get := *request.WithoutBody(r)
		get.Method = http.MethodGet
		w, r = headOnly{w}, &get
	}
	s.engine.ServeHTTP(w, r)
}

// toFiles reports whether a request is for the origin of what tenants have stored.
func (s *Server) toFiles(r *http.Request) bool {
	return s.filesHost != "" && strings.EqualFold(r.Host, s.filesHost)
}

// confineFiles serves nothing of the portal at the origin of what tenants have stored.
func (s *Server) confineFiles(c *gin.Context) {
	if s.toFiles(c.Request) && c.Request.URL.Path != storage.SignedPath {
		s.chain.NoRoute(c)
	}
}

// headOnly drops the body of a response.
type headOnly struct{ http.ResponseWriter }

func (headOnly) Write(b []byte) (int, error) { return len(b), nil }
