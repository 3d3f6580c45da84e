// Package middleware runs before every operation: correlation, limits of size and rate, authentication,
// authorisation, validation against the contract, and idempotency.
package middleware

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
)

// Limits of a request. The event stream sets its own deadline before each write.
const (
	maxHeader = 64 << 10

	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	idleTimeout   = 60 * time.Second
)

// Config contains the dependencies of the middlewares.
type Config struct {
	response.Problems

	Identity *identity.Service
	SignIn   *signin.Service
	Keys     *keys.Service
	// Front is the proxy before the server, if there is one.
	Front Front
	// Limits returns the rate limit of a class for a caller; nil means DefaultLimits.
	Limits func(request.Class, identity.Caller) Limit
	// SharedLimits counts the requests of all replicas.
	SharedLimits SharedLimits
	// Roles returns the declared roles.
	Roles func() policies.RoleTable
	// Notice returns the value of the header with platform.notice; nil: none.
	Notice func() []string
	// MayWrite returns why no operation may change anything at present; nil: each may.
	MayWrite func() error
	Clock    clock.Clock
	// Accounts maps accounts to buckets.
	Accounts Accounts
}

// Decide returns whether a caller may call an operation.
func (s *Chain) Decide(op *request.Operation, c identity.Caller) request.Decision {
	return request.Decide(op, c, s.Roles())
}

// Chain is the sequence of middlewares before every operation of the contract.
type Chain struct {
	Config

	operations map[request.Route]*request.Operation
	byID       map[string]*request.Operation
	fixed      map[string][]string // the methods of the paths without parameters
	limiter    limiter
	repeats    repeatCache
	turns      chan struct{}
	metrics    metrics
}

// New returns an error if an operation of the contract has no role or an unknown class of limits.
func New(cfg Config, doc *openapi3.T) (*Chain, error) {
	if cfg.Limits == nil {
		cfg.Limits = DefaultLimits
	}
	operations, err := request.OperationsOf(doc)
	if err != nil {
		return nil, err
	}
	fixed, byID := map[string][]string{}, map[string]*request.Operation{}
	for at, op := range operations {
		byID[op.ID] = op
		if !strings.Contains(at.Path, ":") {
			fixed[at.Path] = append(fixed[at.Path], at.Method)
		}
	}
	return &Chain{
		Config: cfg, operations: operations, byID: byID, fixed: fixed,
		limiter: limiter{clock: cfg.Clock, limits: cfg.Limits, shared: cfg.SharedLimits, shares: cfg.Clock.Now()},
		turns:   make(chan struct{}, maxTurns),
		metrics: newMetrics(),
	}, nil
}

// Global returns the middlewares of every path, in order: a request that one of them rejects costs
// nothing in those after it.
func (s *Chain) Global() []gin.HandlerFunc {
	return []gin.HandlerFunc{s.correlate, s.recover, s.limitSize}
}

// Server returns an HTTP server with every timeout and limit of size.
func (s *Chain) Server(h http.Handler) *http.Server { return NewHTTPServer(h, s.Log) }

// NewHTTPServer returns a server with every timeout set.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      response.WriteTimeout,
		IdleTimeout:       idleTimeout,
		// net/http does not read more than this. Between one and two times maxHeader, limitSize
		// responds with a problem that names the limit.
		MaxHeaderBytes: 2 * maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Operation returns the operation of a method and a path of the router, or nil.
func (s *Chain) Operation(method, path string) *request.Operation {
	return s.operations[request.Route{Method: method, Path: path}]
}
