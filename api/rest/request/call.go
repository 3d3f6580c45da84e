// Package request describes one request: the operation of the contract, the caller and the role that
// allows it, preconditions, cookies and optional fields. The middlewares fill it; the handlers read it.
package request

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Call contains the results of the middlewares for one request. It is also the context of the request,
// because each further value in a context would copy the request again.
type Call struct {
	context.Context

	Request       http.Request // the server's request, with this context
	CorrelationID string
	Traceparent   string // the client's header, if no tracer runs
	URL           *url.URL
	Op            *Operation // nil for paths outside the contract
	Caller        identity.Caller
	// The caller as audit rows name it, and the IDs of the caller and the tenant. They are
	// substrings of one text, because each further text would cost an allocation.
	Actor, Principal, Tenant string
	ByCookie                 bool
	Body                     []byte
	Key                      identity.Key
	Turn                     chan struct{} // the semaphore that a request with a large body has entered

	Rule     string    // the rule that decided
	Code     errs.Code // of the error that the response has; empty for none
	Platform bool      // a platform role allows the operation, so the caller can read the rows of every tenant

	shared *shared // nil outside of read models

	// Storage for the values of response headers, which would otherwise cost an allocation each.
	headers [7]string
}

type callKey struct{}

// Value returns the call itself, or a value of the context of the server.
func (r *Call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return r
	}
	return r.Context.Value(key)
}

// Of returns the request's own context and its call. The generated server passes gin's context,
// which gin reuses after the request, while a tracer or a connection may still refer to it.
func Of(ctx context.Context) (context.Context, *Call) {
	if c, ok := ctx.(*gin.Context); ok {
		ctx = c.Request.Context()
	}
	r, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		r = &Call{Context: ctx} // an anonymous caller, which every rule rejects
	}
	return ctx, r
}

// Indexes into Call.headers.
const (
	AtCorrelation = iota
	AtTrace
	AtLimit
	AtRemaining
	AtReset
	AtPolicy
	AtRate
)

// Header sets one header of the response and stores its value at the given index.
func (r *Call) Header(h map[string][]string, name string, at int, value string) {
	r.headers[at] = value
	h[name] = r.headers[at : at+1 : at+1]
}
