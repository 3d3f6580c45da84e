package middleware

import (
	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/ids"
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

// Enter returns the call of another operation by the same caller in the same project, such as that of a section of a
// read model, or the error of a caller without the right. The rows are those that the other operation may read.
func (s *Chain) Enter(r *request.Call, operation string) (*request.Call, error) {
	in := *r
	in.Op = s.byID[operation]
	if in.Op.Project == request.NoProject && in.Caller.ServiceAccount == (ids.ServiceAccount{}) {
		in.Caller.Project, in.Caller.ProjectRole = ids.Project{}, "" // as when the request is for this operation
	}
	d := s.Decide(in.Op, in.Caller)
	if !d.Allowed {
		return nil, in.Op.Denied(in.Caller, d)
	}
	in.Rule, in.Platform = d.Rule, d.Platform
	return &in, s.confine(nil, &in)
}
