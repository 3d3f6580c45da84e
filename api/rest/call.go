package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// call is what the middlewares learn about one request. It is the request's
// context, too: each value beside it would copy the request again.
type call struct {
	context.Context

	request     http.Request // the server's, with this context
	correlation string
	traceparent string // as it was sent, where no tracer runs
	url         *url.URL
	op          *operation // nil outside the contract
	caller      identity.Caller
	// The caller as audit rows name it, and the ids of caller and tenant: cuts of
	// one text, since each would cost an allocation.
	actor, principal, tenant string
	byCookie                 bool
	body                     []byte
	key                      identity.Key
	turn                     turns // that was taken

	rule     string // which one decided
	platform bool   // the caller may for being an operator: no tenant bounds what is read

	// Values of response headers, one place for each, since they would cost an
	// allocation each.
	headers [7]string
}

type callKey struct{}

// Value finds the call itself, or what the server's context holds.
func (r *call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return r
	}
	return r.Context.Value(key)
}

// of returns the request's own context and its call. The generated server hands
// out gin's context, which gin uses again once the request is over, while a
// tracer or a connection may hold on to it longer.
func of(ctx context.Context) (context.Context, *call) {
	if c, ok := ctx.(*gin.Context); ok {
		ctx = c.Request.Context()
	}
	r, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		r = &call{Context: ctx} // a caller without a name, whom every rule refuses
	}
	return ctx, r
}

// The places in call.headers.
const (
	atCorrelation = iota
	atTrace
	atLimit
	atRemaining
	atReset
	atPolicy
	atRate
)

// header sets one header of the response from its place.
func (r *call) header(h map[string][]string, name string, at int, value string) {
	r.headers[at] = value
	h[name] = r.headers[at : at+1 : at+1]
}
