package payment

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Undecided reports what can move money of a tenant later.
type Undecided struct {
	Refunds  bool // requested, and not answered by the provider
	Disputes bool // an inquiry, or open
}

const selectUndecided = `
	SELECT EXISTS (SELECT FROM refund_requests WHERE org_id = $1 AND status = 'requested'),
		EXISTS (SELECT FROM payment_disputes WHERE org_id = $1 AND stage IN ('inquiry', 'open'))`

// Claims returns the undecided refunds and disputes of a tenant. With q as the transaction that locks the
// tenant, none of them is missed.
func (s *Service) Claims(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (u Undecided, err error) {
	err = q.QueryRow(ctx, selectUndecided, tenant).Scan(&u.Refunds, &u.Disputes)
	return u, wrap("reading undecided refunds and disputes", err)
}

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
