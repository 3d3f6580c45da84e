package metering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Credit is metered time that the tenant does not pay.
type Credit struct {
	From, To    time.Time
	Reason      Cause
	AmountMinor money.Minor
}

// ended is the interval that a pause has closed.
type ended struct {
	id, tenant uuid.UUID
	currency   string
	gpus       int64
	price      money.Minor
	start, end int64
}

// Pause closes an allocation's open interval, because no report confirms its use any longer, and credits
// the usage since the last report that did. Without an open interval it does nothing.
func Pause(ctx context.Context, tx pgx.Tx, a ids.Allocation, by Cause, seen Observation) (paused bool, err error) {
	var i ended
	err = tx.QueryRow(ctx, pauseInterval, a.UUID, by, seen).Scan(&i.id, &i.tenant, &i.currency, &i.gpus, &i.price, &i.start, &i.end)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pausing %s: %w", a, err)
	}
	from := max(i.start, seen.ObservedAt.Unix())
	if from >= i.end {
		return true, nil // it began after that, and has not lasted a second
	}
	amount, err := i.between(from, i.end)
	if err != nil {
		return false, fmt.Errorf("crediting %s: %w", a, err)
	}
	b := &pgx.Batch{}
	var transfer *uuid.UUID
	if amount > 0 {
		id := uuid.Must(uuid.NewV7())
		transfer = &id
		ledger.QueueTransfer(b, ledger.Transfer{
			ID: id, Kind: ledger.FaultCredit, Reference: i.id.String(), From: ledger.Revenue, To: ledger.BalanceOf(ids.Tenant{UUID: i.tenant}),
			Amount: amount, Currency: i.currency, Allocation: a, Note: note(by, from, i.end),
		}, nil)
	}
	b.Queue(insertCredit, uuid.Must(uuid.NewV7()), i.id, i.tenant, from, i.end, by, amount, transfer)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("crediting %s: %w", a, err)
	}
	return true, nil
}

// between returns the charge of the interval for [from, to): the sum of all passes, past and future,
// however time is cut.
func (i ended) between(from, to int64) (money.Minor, error) {
	before, err := money.Due(i.price, i.gpus, from-i.start)
	if err != nil {
		return 0, err
	}
	after, err := money.Due(i.price, i.gpus, to-i.start)
	return after - before, err
}

func note(by Cause, from, to int64) string {
	why := map[Cause]string{ObservationStale: "its node did not report", NodeUnhealthy: "its node was unhealthy"}[by]
	return fmt.Sprintf("%s from %s to %s", why, at(from).Format(time.RFC3339), at(to).Format(time.RFC3339))
}
