package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Statements compute the monthly statement of a tenant, by UTC. They store nothing: the ledger has the
// sums and the transfers, metering has the usage.
type Statements struct {
	DB       pg.Pool
	Identity *identity.Service
	Ledger   *ledger.Service
	Metering *metering.Service
	Clock    clock.Clock
}

// Totals are the sums of a month. Opening and all of them are Closing.
type Totals struct {
	From, To time.Time
	// Final: the month is over and all its use is charged.
	Final    bool
	Currency string

	Opening     money.Minor
	TopUps      money.Minor // payments, and credit for tests
	Usage       money.Minor // below zero
	Storage     money.Minor // of files, below zero
	Credits     money.Minor // fault credits
	Refunds     money.Minor
	Adjustments money.Minor
	Closing     money.Minor
}

// Month is its name.
func (t Totals) Month() string { return t.From.Format("2006-01") }

// add sorts a sum into its column.
func (t *Totals) add(kind ledger.Kind, sum money.Minor) {
	to := &t.Adjustments
	switch kind {
	case ledger.TopUp, ledger.TestCredit:
		to = &t.TopUps
	case ledger.Usage:
		to = &t.Usage
	case ledger.Storage:
		to = &t.Storage
	case ledger.FaultCredit:
		to = &t.Credits
	case ledger.RefundCardUnspent, ledger.RefundCardCharge, ledger.RefundLedger, ledger.RefundReversed, ledger.Dispute, ledger.DisputeReversed:
		to = &t.Refunds
	case ledger.Adjustment:
	}
	*to += sum
	t.Closing += sum
}

// Months lists the sums of the months before the given one, newest first: those since the tenant's first
// entry, without future months.
func (s *Statements) Months(ctx context.Context, tenant ids.Tenant, before time.Time, limit int) (list []Totals, err error) {
	err = s.still(ctx, func(at *Statements) error {
		first, last, err := at.span(ctx, tenant)
		if errs.CodeOf(err) == errs.NotFound { // no money has moved yet
			return nil
		}
		if err != nil {
			return err
		}
		if !before.IsZero() && before.Before(next(last)) {
			last = month(before).AddDate(0, -1, 0)
		}
		oldest := last.AddDate(0, 1-limit, 0)
		if oldest.Before(first) {
			oldest = first
		}
		if last.Before(oldest) {
			return nil
		}
		list, err = at.totals(ctx, tenant, oldest, next(last))
		return err
	})
	return list, err
}

// totals are the sums of the months of [from, to), newest first.
func (s *Statements) totals(ctx context.Context, tenant ids.Tenant, from, to time.Time) ([]Totals, error) {
	opening, err := s.Ledger.BalanceAt(ctx, s.DB, tenant, from)
	if err != nil {
		return nil, err
	}
	_, currency, err := s.Ledger.Balance(ctx, s.DB, tenant)
	if err != nil {
		return nil, err
	}
	sums, err := s.Ledger.MonthSums(ctx, s.DB, tenant, from, to)
	if err != nil {
		return nil, err
	}
	charged, err := s.Metering.ChargedTo(ctx, s.DB, tenant)
	if err != nil {
		return nil, err
	}
	var list []Totals
	for m := from; m.Before(to); m = next(m) {
		t := Totals{From: m, To: next(m), Final: !charged.Before(next(m)), Currency: currency, Opening: opening, Closing: opening}
		for len(sums) > 0 && sums[0].Month.Equal(m) {
			t.add(sums[0].Kind, sums[0].Sum)
			sums = sums[1:]
		}
		opening = t.Closing
		list = append([]Totals{t}, list...)
	}
	return list, nil
}

// span is the tenant's first month and the running one.
func (s *Statements) span(ctx context.Context, tenant ids.Tenant) (first, last time.Time, err error) {
	began, err := s.Ledger.Since(ctx, s.DB, tenant)
	return month(began), month(s.Clock.Now()), err
}

func next(m time.Time) time.Time { return m.AddDate(0, 1, 0) }

// still reads as of one moment: what is charged or paid while a statement is put
// together is in all of it or in none.
func (s *Statements) still(ctx context.Context, read func(*Statements) error) error {
	tx, err := s.DB.Begin(ctx)
	if err != nil {
		return fmt.Errorf("beginning to read a statement: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // it has written nothing
	if _, err := tx.Exec(ctx, oneMoment); err != nil {
		return fmt.Errorf("beginning to read a statement: %w", err)
	}
	return read(&Statements{
		DB: tx, Identity: s.Identity, Ledger: &ledger.Service{DB: tx}, Metering: &metering.Service{DB: tx}, Clock: s.Clock,
	})
}

const oneMoment = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
