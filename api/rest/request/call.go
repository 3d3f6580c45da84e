// Package request describes one request: the operation of the contract, the caller and the role that
// allows it, preconditions, cookies and optional fields. The middlewares fill it; the handlers read it.
package request

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// Call contains the results of the middlewares for one request. It is also the context of the request,
// because each further value in a context would copy the request again.
type Call struct {
	context.Context

	Request       http.Request // the server's, with this context
	CorrelationID string
	Traceparent   string // as it was sent, where no tracer runs
	URL           *url.URL
	Op            *Operation // nil outside the contract
	Caller        identity.Caller
	// The caller as audit rows name it, and the ids of caller and tenant: cuts of
	// one text, since each would cost an allocation.
	Actor, Principal, Tenant string
	ByCookie                 bool
	Body                     []byte
	Key                      identity.Key
	Turn                     chan struct{} // of large bodies, that was taken

	Rule     string // which one decided
	Platform bool   // the caller may for being an operator: no tenant bounds what is read

	// Values of response headers, one place for each, since they would cost an
	// allocation each.
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

// Of returns the request's own context and its call. The generated server hands
// out gin's context, which gin uses again once the request is over, while a
// tracer or a connection may hold on to it longer.
func Of(ctx context.Context) (context.Context, *Call) {
	if c, ok := ctx.(*gin.Context); ok {
		ctx = c.Request.Context()
	}
	r, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		r = &Call{Context: ctx} // a caller without a name, whom every rule refuses
	}
	return ctx, r
}

// The places in call.headers.
const (
	AtCorrelation = iota
	AtTrace
	AtLimit
	AtRemaining
	AtReset
	AtPolicy
	AtRate
)

// Header sets one header of the response from its place.
func (r *Call) Header(h map[string][]string, name string, at int, value string) {
	r.headers[at] = value
	h[name] = r.headers[at : at+1 : at+1]
}
