package money

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// L5 derives the balances of a thousand tenants from two million entries.
const (
	derivedTenants   = 1000
	derivedTransfers = 100 // of each
)

// Derivation compares the check of every balance, which derives it from the first entry and
// compares it with the reported balance, with a sum of the entries by account.
func Derivation(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	tenants := l.Scaled(derivedTenants, 10)
	url, err := l.Database(ctx, "l5")
	if err != nil {
		return nil, err
	}
	if err := l.Exec(ctx, url,
		fmt.Sprintf(`DO $$ BEGIN PERFORM ledger_ensure_accounts(md5('t' || i)::uuid, 'EUR') FROM generate_series(1, %d) i; END $$`, tenants),
		post(fmt.Sprintf("generate_series(1, %d)", derivedTransfers), "now()", chargedAtOnce)); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url) // without the limits of a server's session
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer pool.Close()
	room := &ledger.Service{DB: pool}
	if err := room.Seal(ctx); err != nil {
		return nil, err
	}
	if err := l.Exec(ctx, url, post(fmt.Sprintf("generate_series(1000001, %d)", 1000000+passesUnseal), "now()", 1), `VACUUM ANALYZE`); err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		accounts, err := room.Derive(ctx, pool, ids.Tenant{})
		for _, a := range accounts {
			if a.Balance != a.Derived {
				err = errors.Join(err, fmt.Errorf("account %s: the balance is %d and its entries sum to %d", a.Account, a.Balance, a.Derived))
			}
		}
		return 0, err
	}
	plain := func(ctx context.Context) (time.Duration, error) {
		rows, err := pool.Query(ctx, `SELECT account_id, sum(amount_minor)::bigint FROM ledger_entries GROUP BY account_id`)
		if err != nil {
			return 0, fmt.Errorf("summing entries: %w", err)
		}
		var account uuid.UUID
		var sum int64
		_, err = pgx.ForEachRow(rows, []any{&account, &sum}, func() error { return nil })
		return 0, err
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, ours, plain)
	if err != nil {
		return nil, err
	}
	n := tenants * derivedTransfers * (chargedAtOnce + 1)
	r := lab.Throughput(p, n, "L5", fmt.Sprintf("every balance from %d entries, difference 0 / SELECT account, sum() … GROUP BY", n)).AtLeast(0.7)
	r.Note = "entries a second; after a seal, ten more transfers of each tenant"
	return []lab.Row{r}, nil
}
