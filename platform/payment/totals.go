package payment

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// A tenant has one currency.
const selectTotals = `SELECT org_id, sum(amount_minor)::bigint, min(currency) FROM stripe_payments GROUP BY org_id`

// Totals returns the sum of all credited payments of each tenant.
func (s *Service) Totals(ctx context.Context, q pg.Queryer) (map[ids.Tenant]ledger.Balance, error) {
	rows, err := q.Query(ctx, selectTotals)
	if err != nil {
		return nil, wrap("summing up payments", err)
	}
	totals := map[ids.Tenant]ledger.Balance{}
	var tenant ids.Tenant
	var b ledger.Balance
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &b.Minor, &b.Currency}, func() error {
		totals[tenant] = b
		return nil
	})
	return totals, wrap("summing up payments", err)
}
