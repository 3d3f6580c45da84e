package slots

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// InUse returns those of the given nodes that have live allocations.
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
