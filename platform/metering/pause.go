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

// interval contains the values of an interval for its credits.
type interval struct {
	id, tenant uuid.UUID
	currency   string
	gpus       int64
	price      money.Minor
	start      int64
}

// Pause closes an allocation's open interval, because no report confirms its use any longer, and credits
// the usage since the last report that did. Without an open interval it does nothing.
func Pause(ctx context.Context, tx pgx.Tx, a ids.Allocation, by Cause, seen Observation) (paused bool, err error) {
	var record uuid.UUID
	var end int64
	err = tx.QueryRow(ctx, pauseInterval, a.UUID, by, seen).Scan(&record, &end)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pausing %s: %w", a, err)
	}
	return true, credit(ctx, tx, a, by, seen.ObservedAt.Unix(), end, &record)
}

// CreditTime credits the usage of an allocation between two times, of open and of closed intervals. It closes
// none. Time that was credited before is left out, so a repeated call credits nothing. The caller has locked
// the allocation.
func CreditTime(ctx context.Context, tx pgx.Tx, a ids.Allocation, by Cause, from, until time.Time) error {
	return credit(ctx, tx, a, by, from.Unix(), until.Unix(), nil)
}

// credit credits the usage in [from, until) that no credit covers, of one interval or of all.
func credit(ctx context.Context, tx pgx.Tx, a ids.Allocation, by Cause, from, until int64, record *uuid.UUID) error {
	if from >= until {
		return nil
	}
	rows, err := tx.Query(ctx, selectUncredited, a.UUID, from, until, record)
	if err != nil {
		return fmt.Errorf("reading the usage of %s: %w", a, err)
	}
	b := &pgx.Batch{}
	var i interval
	var first, last int64
	if _, err := pgx.ForEachRow(rows, []any{&i.id, &i.tenant, &i.currency, &i.gpus, &i.price, &i.start, &first, &last}, func() error {
		return i.queueCredit(b, a, by, first, last, fmt.Sprintf("%s:%d", i.id, first)) // several parts of one interval may be credited
	}); err != nil {
		return fmt.Errorf("reading the usage of %s: %w", a, err)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("crediting %s: %w", a, err)
	}
	return nil
}

// queueCredit credits the usage of [from, to), which is a part of the interval. The ledger has each
// reference once.
func (i interval) queueCredit(b *pgx.Batch, a ids.Allocation, by Cause, from, to int64, reference string) error {
	amount, err := i.between(from, to)
	if err != nil {
		return fmt.Errorf("crediting %s: %w", a, err)
	}
	var transfer *uuid.UUID
	// The ledger accepts only positive amounts. A credit of zero is stored without a transfer, so that the period counts
	// as credited and a repeated call leaves it out.
	if amount > 0 {
		id := uuid.Must(uuid.NewV7())
		transfer = &id
		ledger.QueueTransfer(b, ledger.Transfer{
			ID: id, Kind: ledger.FaultCredit, Reference: reference, From: ledger.Revenue, To: ledger.BalanceOf(ids.Tenant{UUID: i.tenant}),
			Amount: amount, Currency: i.currency, Allocation: a, Note: note(by, from, to),
		}, nil)
	}
	b.Queue(insertCredit, uuid.Must(uuid.NewV7()), i.id, i.tenant, from, to, by, amount, transfer)
	return nil
}

// between returns the charge of the interval for [from, to): the sum of all passes, past and future,
// however time is cut.
func (i interval) between(from, to int64) (money.Minor, error) {
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
