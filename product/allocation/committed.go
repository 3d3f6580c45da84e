package allocation

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// CommittedBurn returns the cost per hour of all allocations of a tenant, or of one of its projects,
// that are requested and not released, active or not.
func (s *Service) CommittedBurn(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project) (burn money.Minor, err error) {
	var of *uuid.UUID
	if project != (ids.Project{}) {
		of = &project.UUID
	}
	if err := q.QueryRow(ctx, sumCommitted, tenant, of).Scan(&burn); err != nil {
		return 0, fmt.Errorf("reading what tenant %s is committed to: %w", tenant, err)
	}
	return burn, nil
}
