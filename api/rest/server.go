// Package rest is the HTTP door for people and programs. It decodes, asks who
// calls and whether their role allows it, calls one use-case, and encodes. It
// holds no SQL and opens no transaction, and one function turns error codes into
// status numbers.
package rest

import (
	"context"
	"crypto/cipher"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Config is what the door is wired to. What is optional says so.
type Config struct {
	Identity    Identity
	Catalog     Catalog
	Allocations Allocations
	Inventory   Inventory
	Metering    Metering
	Ledger      Ledger
	Billing     Billing
	Statements  Statements
	Payments    Payments
	Events      Events
	Desired     Desired
	Changes     Changes
	History     History
	Trace       Trace
	Hook        Hook
	Known       Known
	AuditLog    AuditLog
	// DB is handed to reads that a room does on a connection of the caller's.
	DB pg.Queryer
	// Seen says what the machines last reported of these allocations; without it
	// conditions tell only what the allocations' own rows do.
	Seen     func(ctx context.Context, of []ids.Allocation) (map[ids.Allocation]allocation.Seen, error)
	Machines Machines

	// Naming is the first part of resource names.
	Naming ids.Naming
	// OIDC signs people in; nil without a provider. SignIn is what clients are told
	// about it.
	OIDC   OIDC
	SignIn SignInOptions
	// PersonalLogin says whether there are passwords; nil: none.
	PersonalLogin func() bool
	// TokenKeys is the JWKS of the tokens that we mint; nil: none.
	TokenKeys func() ([]byte, error)
	// APIKeysEnabled says whether the caller's tenant has API keys; nil: it has.
	APIKeysEnabled func(identity.Caller) bool
	// Currency is what a new tenant pays in when nobody says.
	Currency func() string
	// Front is the proxy before this door, if there is one.
	Front Front
	// CursorKey signs page cursors; every replica needs the same.
	CursorKey []byte

	// Ready asks PostgreSQL for a sign of life.
	Ready func(context.Context) error
	// Checks are what healthz lists, in this order.
	Checks []Check
	// Limits says how fast a caller may go; DefaultLimits when nil.
	Limits func(Class, identity.Caller) Limit
	// SharedLimits counts what all replicas let through; without it each counts
	// for itself.
	SharedLimits SharedLimits
	// RiverUI shows the jobs under /admin/river/; nil where no queue runs.
	RiverUI http.Handler
	// Audit records what an admin does to a job, before it is done; without it
	// jobs can only be looked at.
	Audit func(ctx context.Context, c identity.Caller, action, target string) error

	Log   *slog.Logger
	Clock clock.Clock
}

// Server answers the contract.
type Server struct {
	Config
	operations map[route]*operation
	streams    map[string]bool // paths of answers without an end
	cursors    cursors
	limiter    limiter
	settled    settled
	health     health
	turns      turns
	pages      *pages
	cookies    cipher.AEAD // of sign-ins under way
	engine     *gin.Engine
}

// New builds the door. It fails on a fault of the contract or of the wiring.
func New(cfg Config) (*Server, error) {
	if len(cfg.CursorKey) < 16 {
		return nil, errors.New("rest: CursorKey needs 16 bytes or more")
	}
	if cfg.Limits == nil {
		cfg.Limits = DefaultLimits
	}
	if cfg.Naming == (ids.Naming{}) {
		cfg.Naming = ids.DefaultNaming
	}
	doc, err := openapi.Document()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Config:  cfg,
		cursors: cursors{key: cfg.CursorKey, clock: cfg.Clock},
		limiter: limiter{clock: cfg.Clock, limits: cfg.Limits, shared: cfg.SharedLimits, shares: cfg.Clock.Now()},
		health:  health{checks: cfg.Checks, clock: cfg.Clock},
		turns:   make(turns, maxTurns),
	}
	if s.operations, err = operationsOf(doc); err != nil {
		return nil, err
	}
	s.streams = streamsOf(doc)
	if s.pages, err = newPages(); err != nil {
		return nil, err
	}
	if s.cookies, err = cookieSeal(cfg.CursorKey); err != nil {
		return nil, err
	}
	return s, s.mount(doc)
}

// mount builds the routes. The order of the middlewares is a promise: who is
// refused by one costs nothing of those after it.
func (s *Server) mount(doc *openapi3.T) error {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	// Without it the context that handlers get would hide cancellation, trace
	// and caller, silently.
	e.ContextWithFallback = true
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	// A slash that is written as %2F is part of a name and leads to no other path
	// than a proxy before us has seen.
	e.UseRawPath = true
	if err := e.SetTrustedProxies(nil); err != nil {
		return err
	}
	// Spans that nobody collects cost two dozen allocations a request. The trace
	// that a client sends is carried on without them.
	if telemetry.On() {
		e.Use(otelgin.Middleware("gpuaas"))
	}
	e.Use(s.correlate, s.recover, s.limitSize)
	e.NoRoute(s.noRoute)
	e.NoMethod(s.noMethod)

	api := e.Group("/", s.admit)
	strict := oapi.NewStrictHandlerWithOptions(s, nil, oapi.StrictGinServerOptions{
		RequestErrorHandlerFunc:  s.badRequest,
		HandlerErrorFunc:         s.replayOrFail,
		ResponseErrorHandlerFunc: s.fail,
	})
	oapi.RegisterHandlersWithOptions(api, strict, oapi.GinServerOptions{
		ErrorHandler: func(c *gin.Context, err error, _ int) { s.badRequest(c, err) },
	})

	docs, err := reference.New(doc, statusOf)
	if err != nil {
		return err
	}
	s.mountPages(e, docs)
	s.mountRiver(e)
	s.engine = e
	return nil
}

// Handler answers everything of this door.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// serve answers HEAD as GET without its body; net/http leaves that out by itself,
// other writers may not. A stream has no end that one could wait for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead && !s.streams[r.URL.Path] {
		get := *r
		get.Method = http.MethodGet
		w, r = headOnly{w}, &get
	}
	s.engine.ServeHTTP(w, r)
}

// headOnly drops what is written.
type headOnly struct{ http.ResponseWriter }

func (headOnly) Write(b []byte) (int, error) { return len(b), nil }

const (
	maxBody   = 1 << 20
	maxHeader = 64 << 10
	// A request has to arrive and be answered within these; the event stream
	// sets its own deadline before each write.
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 60 * time.Second
)

// HTTPServer returns a server for this door with every timeout set.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		// Twice what is answered in our words, see limitSize: what is beyond that
		// is not even read.
		MaxHeaderBytes: 2 * maxHeader,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}
