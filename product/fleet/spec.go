package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// AppliedSpec is the spec that Declare has applied to a node last.
type AppliedSpec struct {
	ID   ids.Node
	Name string
	Spec json.RawMessage
}

// Specs reads the applied specs of these nodes. A retired node has none.
func (s *Service) Specs(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[ids.Node]AppliedSpec, error) {
	rows, err := q.Query(ctx, selectApplied, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading applied specs of nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AppliedSpec])
	if err != nil {
		return nil, fmt.Errorf("reading applied specs of nodes: %w", err)
	}
	applied := make(map[ids.Node]AppliedSpec, len(list))
	for _, a := range list {
		applied[a.ID] = a
	}
	return applied, nil
}
