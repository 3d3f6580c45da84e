package rest

import (
	"context"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// call is what the middlewares learn about one request. It travels as one
// context value, because each further one would copy the request again.
type call struct {
	correlation string
	url         *url.URL
	op          *operation // nil outside the contract
	caller      identity.Caller
	byCookie    bool
	body        []byte
	key         identity.Key
}

type callKey struct{}

// of returns the request's own context and its call. The generated server hands
// out gin's context, which gin uses again once the request is over, while a
// tracer or a connection may hold on to it longer.
func of(ctx context.Context) (context.Context, *call) {
	if c, ok := ctx.(*gin.Context); ok {
		ctx = c.Request.Context()
	}
	r, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		r = &call{} // a caller without a name, whom every rule refuses
	}
	return ctx, r
}
