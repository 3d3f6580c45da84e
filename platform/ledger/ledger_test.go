package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

type bundle struct {
	*ledger.Service
	db      *pgxpool.Pool
	tenant  ids.Tenant
	balance uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	b := &bundle{Service: &ledger.Service{DB: db}, db: db, tenant: ids.New[ids.Tenant]()}
	b.within(t, func(tx pgx.Tx) (err error) {
		b.balance, err = b.EnsureAccounts(t.Context(), tx, b.tenant, "EUR")
		return err
	})
	return b
}

// within commits what do does, and fails the test when it cannot.
func (b *bundle) within(t *testing.T, do func(pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), b.db, do); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) credit(t *testing.T, amount money.Minor, reference string) {
	t.Helper()
	b.within(t, func(tx pgx.Tx) error { return b.promote(t, tx, amount, reference) })
}

// promote gives the tenant money in a transaction that the caller ends.
func (b *bundle) promote(t *testing.T, tx pgx.Tx, amount money.Minor, reference string) error {
	t.Helper()
	_, err := b.Transfer(t.Context(), tx, b.gift(amount, reference))
	return err
}

func (b *bundle) gift(amount money.Minor, reference string) ledger.Transfer {
	return ledger.Transfer{
		ID: uuid.Must(uuid.NewV7()), Kind: ledger.TestCredit, Reference: reference,
		From: ledger.Promotions, To: ledger.BalanceOf(b.tenant), Amount: amount, Currency: "EUR",
	}
}

func (b *bundle) holds(t *testing.T, want money.Minor) {
	t.Helper()
	got, currency, err := b.Balance(t.Context(), b.db, b.tenant)
	if err != nil || got != want || currency != "EUR" {
		t.Errorf("balance is %d %s, want %d: %v", got, currency, want, err)
	}
	if r, err := b.Verify(t.Context(), ids.Tenant{}); err != nil || !r.OK() {
		t.Errorf("verified: %+v, %v", r, err)
	}
}

func TestAccountsAreMadeOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	tenants := []ids.Tenant{ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
	for i := range 8 {
		wg.Go(func() {
			err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
				_, err := b.EnsureAccounts(t.Context(), tx, tenants[i%2], "USD")
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM ledger_accounts").Scan(&n); err != nil || n != 6+6+1 {
		t.Errorf("%d accounts, %v", n, err)
	}
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.EnsureAccounts(t.Context(), tx, b.tenant, "USD")
		return err
	})
	if errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a second balance in another currency: %v", err)
	}
}

// The check of the balance decides whether the transaction commits.
func TestFundsAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit(t, 10, "start")
	refused := errs.New(errs.InsufficientBalance, "too little")
	for name, c := range map[string]struct {
		tenant ids.Tenant
		want   ledger.Balance
		say    error
	}{
		"passes":         {b.tenant, ledger.Balance{Minor: 10, Currency: "EUR"}, nil},
		"refused":        {b.tenant, ledger.Balance{Minor: 10, Currency: "EUR"}, refused},
		"unknown tenant": {ids.New[ids.Tenant](), ledger.Balance{}, refused},
	} {
		batch := &pgx.Batch{}
		var seen ledger.Balance
		ledger.QueueFunds(batch, c.tenant, func(have ledger.Balance) error {
			seen = have
			return c.say
		})
		if err := b.db.SendBatch(t.Context(), batch).Close(); !errors.Is(err, c.say) || seen != c.want {
			t.Errorf("%s: checked %+v, ended as %v", name, seen, err)
		}
	}
}

func TestBalanceOfNoTenantIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.BalanceAt(t.Context(), b.db, ids.New[ids.Tenant](), time.Now()); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("got %v", err)
	}
	if all, err := b.Balances(t.Context(), b.db, []ids.Tenant{b.tenant, ids.New[ids.Tenant]()}); err != nil || len(all) != 1 || all[b.tenant] != (ledger.Balance{Currency: "EUR"}) {
		t.Errorf("got %v, %v", all, err)
	}
	if _, _, err := b.Balance(context.WithoutCancel(t.Context()), b.db, ids.New[ids.Tenant]()); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("got %v", err)
	}
}
