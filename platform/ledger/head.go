package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

const selectHead = `
	SELECT c.up_to, c.balance_minor, c.chain, c.sealed_at, ` + sealText + `
	FROM ledger_checkpoints c JOIN ledger_accounts a ON a.id = c.account_id
	WHERE a.org_id = $1 AND a.name = 'balance' ORDER BY c.up_to DESC LIMIT 1`

// Head returns the last seal of the balance of a tenant. It is false before the first seal.
func (s *Service) Head(ctx context.Context, tenant ids.Tenant) (h Seal, found bool, err error) {
	switch err := s.DB.QueryRow(ctx, selectHead, tenant.UUID).Scan(&h.UpTo, &h.Balance, &h.Chain, &h.SealedAt, &h.Text); {
	case errors.Is(err, pgx.ErrNoRows):
		return Seal{}, false, nil
	case err != nil:
		return Seal{}, false, fmt.Errorf("reading the last seal of tenant %s: %w", tenant, err)
	}
	h.SealedAt = h.SealedAt.UTC()
	return h, true, nil
}

// Sum is the total of the entries of a filter.
type Sum struct {
	Entries     int64       `json:"entries"`
	AmountMinor money.Minor `json:"amount_minor"`
	Currency    string      `json:"currency"`
}

// SumOf adds up the entries of a filter, and returns the last ones of them, at most most.
func (s *Service) SumOf(ctx context.Context, tenant ids.Tenant, f Filter, most int) (sum Sum, last []Entry, err error) {
	err = s.EachEntry(ctx, tenant, f, func(e Entry) error {
		sum.Entries++
		sum.AmountMinor += e.AmountMinor
		sum.Currency = e.Currency
		if last = append(last, e); len(last) > 2*most {
			last = append(last[:0], last[len(last)-most:]...)
		}
		return nil
	})
	if len(last) > most {
		last = last[len(last)-most:]
	}
	return sum, last, err
}
