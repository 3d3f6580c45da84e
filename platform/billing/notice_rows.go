package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// noticeRow is a tenant's row of the notice state, locked until the transaction ends.
type noticeRow struct {
	tenant ids.Tenant
	State
	sequence int64
	now      time.Time // the database's
}

// lockNoticeRows creates missing rows before it locks them, because a row that does not exist cannot be locked.
func lockNoticeRows(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (list []noticeRow, err error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	b := &pgx.Batch{}
	b.Queue(insertNotices, which)
	b.Queue(lockNotices, which).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t noticeRow, err error) {
			err = row.Scan(&t.tenant, &t.LowSince, &t.LowNotifiedAt, &t.PendingSince, &t.ReleasesAt, &t.DepletedAt, &t.FilesDeleteAt, &t.FilesNotifiedAt, &t.sequence, &t.now)
			return t, err
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("locking the notices of tenants: %w", err)
	}
	return list, nil
}

// turn is the change of one tenant's notice state and the notices of it.
type turn struct {
	noticeRow
	Reading

	currency          string
	next              State
	notices           []Notice
	released, running []string // allocations
	gone              files
}

// event returns the subject and the payload of a notice.
func (t turn) event(n Notice) (subject string, payload any) {
	left, ends := runway(t.Balance, t.Burn)
	minutes := int64(left / time.Minute)
	switch n {
	case LowBalance:
		f := LowBalanceEvent{BalanceMinor: t.Balance, ThresholdMinor: t.Threshold, BurnMinor: t.Burn, Currency: t.currency}
		if ends {
			f.RunwayMinutes = &minutes
		}
		return SubjectLowBalance, f
	case ReleasePending:
		return SubjectPending, ReleasePendingEvent{
			BalanceMinor: t.Balance, RunwayMinutes: minutes, ReleasesAt: *t.next.ReleasesAt, Allocations: t.running, Currency: t.currency,
		}
	case ReleaseCleared:
		return SubjectCleared, ReleaseClearedEvent{BalanceMinor: t.Balance, Currency: t.currency}
	case FilesScheduled, FilesCancelled, FilesDeleted:
		return t.filesEvent(n)
	case Depleted:
	}
	return SubjectDepleted, DepletedEvent{BalanceMinor: t.Balance, Currency: t.currency, Allocations: t.released}
}
