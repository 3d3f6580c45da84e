package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// told is a tenant's row of what it has been told, held until the transaction ends.
type told struct {
	tenant ids.Tenant
	State
	sequence int64
	now      time.Time // the database's
}

func lockTold(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (list []told, err error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	b := &pgx.Batch{}
	b.Queue(insertNotices, which)
	b.Queue(lockNotices, which).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t told, err error) {
			err = row.Scan(&t.tenant, &t.LowSince, &t.LowToldAt, &t.PendingSince, &t.ReleasesAt, &t.DepletedAt, &t.sequence, &t.now)
			return t, err
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("locking what tenants were told: %w", err)
	}
	return list, nil
}

// turn is what has become of one tenant's money, and what it is told of that.
type turn struct {
	told
	Reading

	currency          string
	next              State
	notices           []Notice
	released, running []string // allocations
}

// fact is how a notice is stated.
func (t turn) fact(n Notice) (subject string, payload any) {
	left, ends := runway(t.Balance, t.Burn)
	minutes := int64(left / time.Minute)
	switch n {
	case LowBalance:
		f := LowBalanceFact{BalanceMinor: t.Balance, ThresholdMinor: t.Threshold, BurnMinor: t.Burn, Currency: t.currency}
		if ends {
			f.RunwayMinutes = &minutes
		}
		return SubjectLowBalance, f
	case ReleasePending:
		return SubjectPending, PendingFact{
			BalanceMinor: t.Balance, RunwayMinutes: minutes, ReleasesAt: *t.next.ReleasesAt, Allocations: t.running, Currency: t.currency,
		}
	case ReleaseCleared:
		return SubjectCleared, ClearedFact{BalanceMinor: t.Balance, Currency: t.currency}
	case Depleted:
	}
	return SubjectDepleted, DepletedFact{BalanceMinor: t.Balance, Currency: t.currency, Allocations: t.released}
}
