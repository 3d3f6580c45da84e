package slots

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Stock counts slots that are sold, and slots that are free or will be.
type Stock struct{ Sold, Open int }

// NodeSummary is a node with its number of claims.
type NodeSummary struct {
	ID       ids.Node
	Name     string
	SKU      string
	Cordoned bool
	Stock    Stock
	Held     int // slots that are claimed, or not proved clean yet
}

// NodeSummaries reads these nodes. A node that is not applied yet is left out.
func (s *Service) NodeSummaries(ctx context.Context, q pg.Queryer, nodes []ids.Node) ([]NodeSummary, error) {
	rows, err := q.Query(ctx, selectNodeSummaries, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading the claims of nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n NodeSummary, err error) {
		err = row.Scan(&n.ID, &n.Name, &n.SKU, &n.Cordoned, &n.Stock.Sold, &n.Stock.Open, &n.Held)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the claims of nodes: %w", err)
	}
	return list, nil
}

// Stock reads the fleet's slots by SKU, and how many nodes it has.
func (s *Service) Stock(ctx context.Context, q pg.Queryer) (stock map[string]Stock, nodes int, err error) {
	if err := q.QueryRow(ctx, countFleet).Scan(&nodes); err != nil {
		return nil, 0, fmt.Errorf("counting nodes: %w", err)
	}
	rows, err := q.Query(ctx, selectStock)
	if err != nil {
		return nil, 0, fmt.Errorf("counting slots: %w", err)
	}
	stock = map[string]Stock{}
	var sku string
	var n Stock
	if _, err := pgx.ForEachRow(rows, []any{&sku, &n.Sold, &n.Open}, func() error {
		stock[sku] = n
		return nil
	}); err != nil {
		return nil, 0, fmt.Errorf("counting slots: %w", err)
	}
	return stock, nodes, nil
}
