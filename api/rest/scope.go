package rest

import (
	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// confine keeps what the request does from here on to the rows of its caller.
func (s *Server) confine(_ *gin.Context, r *call) error {
	if r.op.public {
		return nil
	}
	to := pg.Scope{Tenant: r.tenant, Principal: r.principal}
	if r.platform {
		to.Tenant = pg.Platform.Tenant
	}
	r.Context = pg.WithScope(r.Context, to)
	return nil
}
