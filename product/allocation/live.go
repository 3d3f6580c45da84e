package allocation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// LiveAllocation is an allocation, not yet final, on a node or of an SKU that a change modifies.
type LiveAllocation struct {
	ID       ids.Allocation
	Tenant   ids.Tenant
	Project  ids.Project
	Node     ids.Node
	SKU      string
	GPUs     int
	Price    money.Minor
	Currency string
	Charged  bool // active, and not paused
	Leaving  bool // Reprice leaves it alone
}

// LiveAllocations reads the live allocations on these nodes or of these SKUs, of all tenants that the
// caller may see.
func (s *Service) LiveAllocations(ctx context.Context, q pg.Queryer, nodes []ids.Node, skus []string) ([]LiveAllocation, error) {
	rows, err := q.Query(ctx, selectLiveAllocations, nodes, skus)
	if err != nil {
		return nil, fmt.Errorf("reading live allocations: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a LiveAllocation, err error) {
		err = row.Scan(&a.ID, &a.Tenant, &a.Project, &a.Node, &a.SKU, &a.GPUs, &a.Price, &a.Currency, &a.Charged, &a.Leaving)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading live allocations: %w", err)
	}
	return list, nil
}

// Holding is the number of allocations of a principal in one project, as the caps count them.
type Holding struct {
	Tenant  ids.Tenant
	Project ids.Project
	User    ids.User
	Count   int64
}

// Holdings reads those of all tenants that the caller may see.
func (s *Service) Holdings(ctx context.Context, q pg.Queryer) ([]Holding, error) {
	rows, err := q.Query(ctx, selectHoldings)
	if err != nil {
		return nil, fmt.Errorf("counting live allocations: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Holding, err error) {
		err = row.Scan(&h.Tenant, &h.Project, &h.User, &h.Count)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting live allocations: %w", err)
	}
	return list, nil
}
