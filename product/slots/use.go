package slots

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// InUse counts the slots of the given nodes that an allocation has, or that are not proved clean. Nodes without such
// slots are left out.
func (s *Service) InUse(ctx context.Context, tx pgx.Tx, nodes []ids.Node) (map[ids.Node]int, error) {
	rows, err := tx.Query(ctx, countClaims, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading claims: %w", err)
	}
	used := map[ids.Node]int{}
	var node ids.Node
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&node, &n}, func() error {
		used[node] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading claims: %w", err)
	}
	return used, nil
}

// QueueInspected ends the claim on a slot and frees it, after operators have inspected it.
func QueueInspected(b *pgx.Batch, id ids.Slot) { b.Queue(freeInspected, id) }

// OpenClaims counts the slots that an allocation still has.
func (*Service) OpenClaims(ctx context.Context, q pg.Queryer, of ids.Allocation) (n int, err error) {
	if err := q.QueryRow(ctx, countOpenClaims, of).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the claims of %s: %w", of, err)
	}
	return n, nil
}
