package middleware

import (
	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// confine limits the later statements of the request to the rows of its caller.
func (s *Chain) confine(_ *gin.Context, r *request.Call) error {
	if r.Op.Public {
		return nil
	}
	to := pg.Scope{Tenant: r.Tenant, Principal: r.Principal}
	if r.Platform {
		to.Tenant = pg.Platform.Tenant
	}
	r.Context = pg.WithScope(r.Context, to)
	return nil
}
