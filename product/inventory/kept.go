package inventory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Kept is what a node's row holds of its declaration.
type Kept struct {
	ID         ids.Node
	Name       string
	SKU        string
	Region     string
	Onboarding string
	GPUs       int
	Hardware   string
	Cordoned   bool
	Address    string
}

// Kept reads the rows of these nodes, for whoever compares them with what was
// declared; a retired one is none.
func (s *Service) Kept(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[ids.Node]Kept, error) {
	rows, err := q.Query(ctx, selectKept, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading kept nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Kept])
	if err != nil {
		return nil, fmt.Errorf("reading kept nodes: %w", err)
	}
	kept := make(map[ids.Node]Kept, len(list))
	for _, k := range list {
		kept[k.ID] = k
	}
	return kept, nil
}
