package payment

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
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
