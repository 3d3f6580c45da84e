package signin

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// unscoped is for queries that identify the caller and the tenant. Before them a request has no scope.
func unscoped(ctx context.Context) context.Context { return pg.WithScope(ctx, pg.Platform) }
