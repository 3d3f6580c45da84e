package metering

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const selectTenants = `
	SELECT DISTINCT org_id FROM usage_records WHERE end_s IS NULL ORDER BY 1`

// Tenants lists those that use anything right now.
func (s *Service) Tenants(ctx context.Context, q pg.Queryer) ([]ids.Tenant, error) {
	rows, err := q.Query(ctx, selectTenants)
	if err != nil {
		return nil, fmt.Errorf("listing tenants in use: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Tenant])
	if err != nil {
		return nil, fmt.Errorf("listing tenants in use: %w", err)
	}
	return list, nil
}

var sumClosed = `
	SELECT coalesce(sum(r.end_s - r.start_s), 0)::bigint, coalesce(sum(` + due("(r.end_s - r.start_s)") + `), 0)::bigint
	FROM usage_records r WHERE r.allocation_id = $1 AND r.end_s IS NOT NULL`

// Closed is what an allocation's ended intervals come to, charged or about to be.
func Closed(ctx context.Context, q pg.Queryer, a ids.Allocation) (seconds int64, cost money.Minor, err error) {
	if err := q.QueryRow(ctx, sumClosed, a.UUID).Scan(&seconds, &cost); err != nil {
		return 0, 0, fmt.Errorf("summing usage of %s: %w", a, err)
	}
	return seconds, cost, nil
}
