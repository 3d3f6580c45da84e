package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Status is the billing state of a tenant: balance, burn rate, runway and announced release.
type Status struct {
	BalanceMinor   money.Minor
	Currency       string
	BurnMinor      money.Minor // per hour
	RunwaySeconds  *int64      // nil while nothing is burnt
	Low            bool
	ThresholdMinor money.Minor // below it the balance is low
	// ReleasesAt is the time of the release of all allocations if nothing changes. It is nil while no
	// release is announced.
	ReleasesAt *time.Time
	// FilesDeleteAt is the time of the deletion of all files if no credit arrives. It is nil while none is scheduled.
	FilesDeleteAt   *time.Time
	SpentMonthMinor money.Minor // since the month began, by UTC, charged or not yet
}

// Status reads it. A tenant that was never given any money has none.
func (s *Service) Status(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (Status, error) {
	whose, err := s.Identity.TenantByID(ctx, tenant)
	if err != nil {
		return Status{}, err
	}
	st := Status{Currency: whose.Currency, ThresholdMinor: terms(s.Policy(tenant, ids.Project{})).Threshold}
	balance, currency, err := s.Ledger.Balance(ctx, q, tenant)
	switch {
	case err == nil:
		st.BalanceMinor, st.Currency = balance, currency
	case errs.CodeOf(err) != errs.NotFound:
		return Status{}, err
	}
	if st.BurnMinor, err = s.Metering.Burn(ctx, q, tenant); err != nil {
		return Status{}, err
	}
	now := s.Clock.Now()
	if st.SpentMonthMinor, err = s.Metering.SpentSince(ctx, q, tenant, ids.Project{}, month(now)); err != nil {
		return Status{}, err
	}
	if st.FilesDeleteAt, err = filesDeleteAt(ctx, q, tenant); err != nil {
		return Status{}, err
	}
	st.Low = st.BalanceMinor < st.ThresholdMinor
	left, ends := runway(st.BalanceMinor, st.BurnMinor)
	if !ends {
		return st, nil
	}
	seconds := int64(left / time.Second)
	st.RunwaySeconds = &seconds
	pending, err := announced(ctx, q, tenant)
	if pending {
		at := now.Add(left).UTC().Truncate(time.Second)
		st.ReleasesAt = &at
	}
	return st, err
}

// announced reports whether the tenant has an announced release.
func announced(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (pending bool, err error) {
	err = q.QueryRow(ctx, selectPending, tenant).Scan(&pending)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("reading the notices of %s: %w", tenant, err)
	}
	return pending, nil
}

// filesDeleteAt returns the time of the scheduled deletion of files.
func filesDeleteAt(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (at *time.Time, err error) {
	err = q.QueryRow(ctx, selectFilesDeletion, tenant).Scan(&at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("reading the scheduled deletion of files of %s: %w", tenant, err)
	}
	return at, nil
}

// month returns the start of the month that contains now. Months are in UTC, as in the ledger.
func month(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}
