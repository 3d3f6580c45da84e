package nodeapi

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// contested evaluates the nodes again whose GPUs another node has begun or ceased to report, so that these
// GPUs leave placement or return. If this fails, the job check_health does it.
func (i *Intake) contested(ctx context.Context, node ids.Node, changes []fleet.Contest) {
	for _, c := range changes {
		if c.Begun > 0 {
			i.Metrics.rejected(reasonContested, c.Begun)
			i.log().WarnContext(ctx, "a node reports GPUs of another node", "node", node, "owner", c.Owner, "gpus", c.Begun)
		}
		err := pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) error { return i.Inventory.Recheck(ctx, tx, c.Owner) })
		if err != nil {
			i.log().WarnContext(ctx, "contested GPUs not evaluated again", "node", c.Owner, "err", err)
		}
	}
}
