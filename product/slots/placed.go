package slots

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Placed is the part of some allocations that is on one node.
type Placed struct {
	Slots int                    // slots of the node, or the GPUs that its object declares if these are more
	Ever  map[uuid.UUID]struct{} // allocations that have or had a slot of the node
	Now   map[uuid.UUID]struct{} // those that have one now
}

// Placed reads which of the allocations have or had a slot of the node.
func (*Service) Placed(ctx context.Context, tx pgx.Tx, node ids.Node, of []uuid.UUID) (p Placed, err error) {
	var ever, now []uuid.UUID
	if err := tx.QueryRow(ctx, selectPlaced, node, of).Scan(&p.Slots, &ever, &now); err != nil {
		return Placed{}, fmt.Errorf("reading the claims on %s: %w", node, err)
	}
	p.Ever, p.Now = setOf(ever), setOf(now)
	return p, nil
}

func setOf(list []uuid.UUID) map[uuid.UUID]struct{} {
	set := make(map[uuid.UUID]struct{}, len(list))
	for _, id := range list {
		set[id] = struct{}{}
	}
	return set
}
