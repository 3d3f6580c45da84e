package identity

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Scope is whose rows the caller's request may touch: their tenant's, or where a
// role on the platform has allowed it, everyone's.
func (c Caller) Scope(platform bool) pg.Scope {
	var s pg.Scope
	if c.Tenant != (ids.Tenant{}) {
		s.Tenant = c.Tenant.String()
	}
	if platform {
		s.Tenant = pg.Platform.Tenant
	}
	if p := c.Principal(); p != uuid.Nil {
		s.Principal = p.String()
	}
	return s
}

// unscoped is for what finds out who calls and for whom: until then a request
// has no scope.
func unscoped(ctx context.Context) context.Context { return pg.WithScope(ctx, pg.Platform) }
