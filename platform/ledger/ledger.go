// Package ledger keeps money: accounts, transfers, and entries that are added
// and never changed. A balance is a sum, never a row that postings fight over:
// posting locks no account, and a sealed checkpoint keeps the sum short. Mistakes
// are put right by new transfers. It prices nothing and talks to no provider.
//
// A tenant's balance account holds what it may still spend: credits are positive,
// usage is negative, and the other side stands in an account of the platform.
package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Service posts and reads.
type Service struct{ DB pg.Pool }

// Line is one entry to be: Amount is added to Account.
type Line struct {
	Account    uuid.UUID
	Allocation ids.Allocation // zero when it is about none
	Amount     money.Minor
}

// Transfer moves money between accounts of one currency. Kind and Reference
// together name the reason for it, once: the same reason has no second effect.
type Transfer struct {
	Kind      string // test_credit, correction …
	Reference string
	Currency  string
	Lines     []Line
}

// EnsureAccounts makes sure of the tenant's balance account and of the
// platform's accounts in that currency.
func (s *Service) EnsureAccounts(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, currency string) (balance uuid.UUID, err error) {
	if err := tx.QueryRow(ctx, ensureAccounts, tenant.UUID, currency).Scan(&balance); err != nil {
		return uuid.Nil, fmt.Errorf("making accounts of tenant %s: %w", tenant, err)
	}
	return balance, nil
}

// Balance is what the tenant may still spend.
func (s *Service) Balance(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (balance money.Minor, currency string, err error) {
	err = q.QueryRow(ctx, selectBalance, tenant.UUID).Scan(&balance, &currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", errs.New(errs.NotFound, "this tenant has no balance account")
	}
	if err != nil {
		return 0, "", fmt.Errorf("reading the balance of tenant %s: %w", tenant, err)
	}
	return balance, currency, nil
}

// QueueFunds fails the caller's transaction unless the tenant's balance is above
// zero and covers need. It is a promise only under the tenant's lock.
func QueueFunds(b *pgx.Batch, tenant ids.Tenant, need money.Minor) {
	b.Queue(selectBalance, tenant.UUID).QueryRow(func(row pgx.Row) error {
		var balance money.Minor
		var currency string
		err := row.Scan(&balance, &currency)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("reading the balance of tenant %s: %w", tenant, err)
		}
		if err == nil && balance > 0 && balance >= need {
			return nil
		}
		return errs.New(errs.InsufficientBalance, "the balance does not cover this").
			With("balance_minor", balance).With("needed_minor", need).With("currency", currency).
			Try("add credit, or ask for less")
	})
}

// Transfer posts t in one statement. It refuses lines that do not sum to zero.
func (s *Service) Transfer(ctx context.Context, tx pgx.Tx, t Transfer) error {
	if err := balanced(t.Lines); err != nil {
		return fmt.Errorf("transfer %s %s: %w", t.Kind, t.Reference, err)
	}
	accounts := make([]uuid.UUID, len(t.Lines))
	allocations := make([]*uuid.UUID, len(t.Lines))
	amounts := make([]int64, len(t.Lines))
	for i, l := range t.Lines {
		accounts[i], amounts[i] = l.Account, int64(l.Amount)
		if l.Allocation != (ids.Allocation{}) {
			allocations[i] = &l.Allocation.UUID
		}
	}
	var fresh bool
	var posted int
	err := tx.QueryRow(ctx, insertTransfer, uuid.Must(uuid.NewV7()), t.Kind, t.Reference, t.Currency,
		accounts, allocations, amounts).Scan(&fresh, &posted)
	switch {
	case err != nil:
		return fmt.Errorf("posting transfer %s %s: %w", t.Kind, t.Reference, err)
	case fresh && posted != len(t.Lines):
		return fmt.Errorf("transfer %s %s: %d of %d accounts are unknown or of another currency than %s",
			t.Kind, t.Reference, len(t.Lines)-posted, len(t.Lines), t.Currency)
	}
	return nil
}

func balanced(lines []Line) error {
	if len(lines) < 2 {
		return errors.New("a transfer has two lines or more")
	}
	var sum money.Minor
	var err error
	for _, l := range lines {
		if sum, err = money.Add(sum, l.Amount); err != nil {
			return err
		}
	}
	if sum != 0 {
		return fmt.Errorf("its lines sum to %d, not to zero", sum)
	}
	return nil
}

// TestCredit gives a tenant money that nobody paid, once per reference.
func (s *Service) TestCredit(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, amount money.Minor, reference string) error {
	var balance, credit uuid.UUID
	var currency string
	if err := tx.QueryRow(ctx, selectCreditAccounts, tenant.UUID).Scan(&balance, &credit, &currency); err != nil {
		return fmt.Errorf("finding accounts of tenant %s: %w", tenant, err)
	}
	return s.Transfer(ctx, tx, Transfer{
		Kind: "test_credit", Reference: reference, Currency: currency,
		Lines: []Line{{Account: balance, Amount: amount}, {Account: credit, Amount: -amount}},
	})
}
