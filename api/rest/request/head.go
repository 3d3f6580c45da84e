package request

import (
	"context"
	"net/http"
)

type headKey struct{}

// WithoutBody marks a request whose client receives no body: HEAD is served as GET.
func WithoutBody(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), headKey{}, true))
}

// IsHead reports whether the client receives no body, so that a handler need not read one.
func IsHead(ctx context.Context) bool { return ctx.Value(headKey{}) != nil }
