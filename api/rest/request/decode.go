package request

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// GinContext returns the context of Gin, which handlers need to read headers and to set cookies.
func GinContext(ctx context.Context) (*gin.Context, error) {
	c, ok := ctx.(*gin.Context)
	if !ok {
		return nil, errs.New(errs.Internal, "no request in the context")
	}
	return c, nil
}

// Or returns the value that the client sent, or the default if the client omitted it.
func Or[T any](sent *T, meant T) T {
	if sent == nil {
		return meant
	}
	return *sent
}

// ScopeNames returns the names of scopes.
func ScopeNames(scopes []oapi.Scope) []string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return names
}
