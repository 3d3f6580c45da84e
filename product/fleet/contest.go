package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Contest is a node some of whose GPUs another node has begun or ceased to report.
type Contest struct {
	Owner ids.Node
	Begun int // GPUs that the other node reports for the first time
}

// Contest records the GPUs of a report that belong to other nodes, and returns the changes. A GPU belongs
// to the node that reported it first; no report moves it.
func (*Service) Contest(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Report) (changes []Contest, err error) {
	listed := make([]string, len(r.Inventory.GPUs))
	for i, g := range r.Inventory.GPUs {
		listed[i] = g.UUID
	}
	rows, err := tx.Query(ctx, contestGPUs, node, listed, r.Complete)
	if err == nil {
		changes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Contest])
	}
	if err != nil {
		return nil, fmt.Errorf("comparing the GPUs of %s with those of other nodes: %w", node, err)
	}
	return changes, nil
}
