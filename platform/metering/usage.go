package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Usage lists what the tenant's allocations, or those of one of its projects,
// used within [from, to), by allocation, after the given one.
func (s *Service) Usage(ctx context.Context, tenant ids.Tenant, project ids.Project, from, to time.Time, after ids.Allocation, limit int) ([]Usage, error) {
	rows, err := s.DB.Query(ctx, selectUsage, tenant.UUID, from.Unix(), to.Unix(), after.UUID, limit, project.UUID)
	if err != nil {
		return nil, fmt.Errorf("reading usage of tenant %s: %w", tenant, err)
	}
	all, err := pgx.CollectRows(rows, scanUsage)
	if err != nil {
		return nil, fmt.Errorf("reading usage of tenant %s: %w", tenant, err)
	}
	return all, nil
}

func scanUsage(row pgx.CollectableRow) (u Usage, err error) {
	var start int64
	var end *int64
	err = row.Scan(&u.Allocation.UUID, &u.Project.UUID, &u.SKU, &u.GPUs, &u.PriceMinor, &u.Currency,
		&u.Seconds, &u.CostMinor, &start, &end)
	u.StartedAt = time.Unix(start, 0).UTC()
	if end != nil {
		at := time.Unix(*end, 0).UTC()
		u.EndedAt = &at
	}
	return u, err
}

// CostOf returns what each allocation has come to so far, charged or not yet.
// One that was never in use is left out.
func (s *Service) CostOf(ctx context.Context, allocations []ids.Allocation) (map[ids.Allocation]money.Minor, error) {
	rows, err := s.DB.Query(ctx, selectCosts, plain(allocations))
	if err != nil {
		return nil, fmt.Errorf("reading costs: %w", err)
	}
	costs := map[ids.Allocation]money.Minor{}
	var id ids.Allocation
	var cost money.Minor
	_, err = pgx.ForEachRow(rows, []any{&id.UUID, &cost}, func() error {
		costs[id] = cost
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading costs: %w", err)
	}
	return costs, nil
}

func plain(allocations []ids.Allocation) []uuid.UUID {
	list := make([]uuid.UUID, len(allocations))
	for i, a := range allocations {
		list[i] = a.UUID
	}
	return list
}

// Burn is what the tenant's open intervals cost per hour.
func (s *Service) Burn(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, error) {
	var burn money.Minor
	if err := q.QueryRow(ctx, selectBurn, tenant.UUID).Scan(&burn); err != nil {
		return 0, fmt.Errorf("reading the burn of tenant %s: %w", tenant, err)
	}
	return burn, nil
}
