package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Spec is what a node's row holds of its declaration.
type Spec struct {
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

// Specs reads the rows of these nodes, for whoever compares them with what was
// declared; a retired one is none.
func (s *Service) Specs(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[ids.Node]Spec, error) {
	rows, err := q.Query(ctx, selectKept, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading kept nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Spec])
	if err != nil {
		return nil, fmt.Errorf("reading kept nodes: %w", err)
	}
	kept := make(map[ids.Node]Spec, len(list))
	for _, k := range list {
		kept[k.ID] = k
	}
	return kept, nil
}
