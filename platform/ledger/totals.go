package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const selectTotals = `
	SELECT a.org_id, sum(e.amount_minor)::bigint, a.currency
	FROM ledger_transfers t JOIN ledger_entries e ON e.transfer_id = t.id JOIN ledger_accounts a ON a.id = e.account_id
	WHERE t.kind = $1 AND a.name = 'balance' GROUP BY a.org_id, a.currency`

// Totals returns the sum of all transfers of one kind for each tenant, so that another package can
// compare its own records with the ledger.
func (s *Service) Totals(ctx context.Context, q pg.Queryer, kind Kind) (map[ids.Tenant]Balance, error) {
	rows, err := q.Query(ctx, selectTotals, kind)
	if err != nil {
		return nil, fmt.Errorf("summing up %s: %w", kind, err)
	}
	totals := map[ids.Tenant]Balance{}
	var tenant ids.Tenant
	var b Balance
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &b.Minor, &b.Currency}, func() error {
		totals[tenant] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("summing up %s: %w", kind, err)
	}
	return totals, nil
}
