package ledger

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Holdings divides the balance of a tenant by its origin. Paid and Promotional sum to the balance.
type Holdings struct {
	Paid        money.Minor // from top-ups, and not used; below zero: used beyond them
	Promotional money.Minor // from credit that was not paid: test credit and adjustments
	Charged     money.Minor // for use, without what was credited since
	PaidUse     money.Minor // the part of Charged that paid credit has covered
}

// Balance returns the sum of both parts.
func (h Holdings) Balance() money.Minor { return h.Paid + h.Promotional }

// movement is a part of the history of a balance: a transfer, or the sum of the usage between two
// transfers. The amount is what it added to the balance.
type movement struct {
	Kind   Kind
	Amount money.Minor
}

// add returns the holdings after the next movement. Promotional credit is used first. A credit for use
// returns to the paid part at most what use has cost it, so that promotional credit does not
// become paid credit by being used and credited.
func (h Holdings) add(m movement) Holdings {
	switch m.Kind {
	case TestCredit:
		h.Promotional += m.Amount
	case Adjustment:
		if m.Amount > 0 {
			h.Promotional += m.Amount
			return h
		}
		h, _ = h.use(-m.Amount)
	case Usage, Storage:
		var paid money.Minor
		h, paid = h.use(-m.Amount)
		h.Charged -= m.Amount
		h.PaidUse += paid
	case FaultCredit, RefundLedger:
		back := min(m.Amount, h.PaidUse)
		h.Paid, h.Promotional = h.Paid+back, h.Promotional+m.Amount-back
		h.Charged, h.PaidUse = h.Charged-m.Amount, h.PaidUse-back
	case TopUp, RefundCardUnspent, RefundCardCharge, RefundReversed, Dispute, DisputeReversed:
		h.Paid += m.Amount
	}
	return h
}

// use charges the promotional part first, and the paid one for the rest.
func (h Holdings) use(amount money.Minor) (_ Holdings, paid money.Minor) {
	free := min(amount, h.Promotional)
	h.Promotional, h.Paid = h.Promotional-free, h.Paid-(amount-free)
	return h, amount - free
}

// QueueHoldings calls check with the holdings of the tenant in the caller's transaction, and the
// transaction fails with the error of check. The caller has locked the tenant, so that two refunds do not
// read the same holdings. Use, disputes and refunds of the provider use no lock; they only reduce what is
// left, and the provider rejects what exceeds a payment. The cost grows with the number of the tenant's
// transfers, so only rare operations read holdings.
func QueueHoldings(b *pgx.Batch, tenant ids.Tenant, check func(Holdings) error) {
	b.Queue(selectHistory, tenant.UUID).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[movement])
		if err != nil {
			return fmt.Errorf("reading the history of the balance of tenant %s: %w", tenant, err)
		}
		var h Holdings
		for _, m := range all {
			h = h.add(m)
		}
		return check(h)
	})
}

// The transfers of a tenant, oldest first. Usage between two other transfers is one row, because use has a
// transfer for each tick.
const selectHistory = `
	SELECT kind, sum(amount_minor)::bigint FROM (
		SELECT kind, amount_minor, seq, count(*) FILTER (WHERE kind NOT IN ('usage', 'storage')) OVER (ORDER BY seq) AS after
		FROM ledger_transfers WHERE org_id = $1
	) t GROUP BY after, kind ORDER BY min(seq)`
