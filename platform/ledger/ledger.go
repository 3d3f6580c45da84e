// Package ledger owns accounts, transfers, and entries that are added and never changed. A balance is a
// sum and not a row that transactions compete for: a transfer locks no account, and a sealed checkpoint
// bounds the number of entries to add up. Mistakes are corrected by new transfers. The package prices
// nothing and calls no payment provider.
//
// A tenant's balance account contains the money that the tenant may still spend: credits are positive,
// usage is negative. The opposite entry is in an account of the platform.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Service posts and reads.
type Service struct{ DB pg.Pool }

// EnsureAccounts makes sure of the tenant's balance account and of the
// platform's accounts in that currency.
func (s *Service) EnsureAccounts(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, currency string) (balance uuid.UUID, err error) {
	if err := tx.QueryRow(ctx, ensureAccounts, tenant.UUID, currency).Scan(&balance); err != nil {
		return uuid.Nil, fmt.Errorf("making accounts of tenant %s: %w", tenant, ensuring(err, tenant, currency))
	}
	return balance, nil
}

// ensuring gives a rejection by ledger_ensure_accounts its code.
func ensuring(err error, tenant ids.Tenant, currency string) error {
	var rejected *pgconn.PgError
	// A check_violation of a table names its constraint.
	if errors.As(err, &rejected) && rejected.Code == "23514" && rejected.ConstraintName == "" && tenant != (ids.Tenant{}) {
		return errs.New(errs.Conflict, "the balance of this tenant is not in %s", currency).With("currency", currency).Because(err)
	}
	return err
}

// Balance returns the money that the tenant may still spend.
func (s *Service) Balance(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (balance money.Minor, currency string, err error) {
	err = q.QueryRow(ctx, selectBalance, tenant.UUID).Scan(&balance, &currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", noBalance()
	}
	if err != nil {
		return 0, "", fmt.Errorf("reading the balance of tenant %s: %w", tenant, err)
	}
	return balance, currency, nil
}

func noBalance() error { return errs.New(errs.NotFound, "this tenant has no balance account") }

// Balance is an amount in a currency.
type Balance struct {
	Minor    money.Minor
	Currency string
}

// Balances reads those of many tenants at once. One without an account is left out.
func (s *Service) Balances(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant]Balance, error) {
	list := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		list[i] = t.UUID
	}
	rows, err := q.Query(ctx, selectBalances, list)
	if err != nil {
		return nil, fmt.Errorf("reading balances: %w", err)
	}
	balances := make(map[ids.Tenant]Balance, len(tenants))
	var tenant ids.Tenant
	var b Balance
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &b.Minor, &b.Currency}, func() error {
		balances[tenant] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading balances: %w", err)
	}
	return balances, nil
}

// BalanceAt returns the balance before the moment at, by the posting time of the entries. It subtracts
// later entries from the current balance, so its cost grows with their number.
func (s *Service) BalanceAt(ctx context.Context, q pg.Queryer, tenant ids.Tenant, at time.Time) (balance money.Minor, err error) {
	err = q.QueryRow(ctx, selectBalanceAt, tenant.UUID, at).Scan(&balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, noBalance()
	}
	if err != nil {
		return 0, fmt.Errorf("reading the balance of tenant %s at %s: %w", tenant, at.UTC().Format(time.RFC3339), err)
	}
	return balance, nil
}

// QueueFunds calls check with the tenant's balance in the caller's transaction, and the transaction
// fails with the error of check. The balance can still change before the commit unless the caller has
// locked the tenant. A tenant without an account has a balance of zero without a currency.
func QueueFunds(b *pgx.Batch, tenant ids.Tenant, check func(Balance) error) {
	b.Queue(selectBalance, tenant.UUID).QueryRow(func(row pgx.Row) error {
		var have Balance
		err := row.Scan(&have.Minor, &have.Currency)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("reading the balance of tenant %s: %w", tenant, err)
		}
		return check(have)
	})
}
