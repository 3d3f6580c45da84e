// Package money measures accrual, the ledger and balances.
package money

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// The goal of L1 is stated for a million open intervals of a thousand tenants.
const (
	intervals     = 1_000_000
	payingTenants = 1000
)

// plainCharge writes only the entries of a pass: no tick, no transfers, no revenue side, and no
// check for ended intervals.
const plainCharge = `
	INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency)
	SELECT org_id, account_id, allocation_id,
		-(gpus * price_minor * (($2::bigint - start_s) / 3600) + gpus * price_minor * (($2::bigint - start_s) % 3600) / 3600
		- gpus * price_minor * (($1::bigint - start_s) / 3600) - gpus * price_minor * (($1::bigint - start_s) % 3600) / 3600), currency
	FROM usage_records WHERE end_s IS NULL`

// meters contains open intervals of a thousand tenants and the service that charges them.
type meters struct {
	lab     *lab.Lab
	url     string
	pool    *pgxpool.Pool
	service *metering.Service
	n       int
}

// newMeters creates n intervals in a separate database. They began on the current day, because a
// tick ends at midnight and each interval would have two.
func newMeters(ctx context.Context, l *lab.Lab, name string, n int) (*meters, error) {
	url, err := l.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := l.Exec(ctx, url,
		fmt.Sprintf(`DO $$ BEGIN PERFORM ledger_ensure_accounts(md5('t' || i)::uuid, 'EUR') FROM generate_series(0, %d) i; END $$`, payingTenants-1),
		fmt.Sprintf(`INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s)
			SELECT gen_random_uuid(), md5('a' || i)::uuid, a.org_id, a.org_id, 'h100', 8, 2000 + i %% 100, 'EUR', a.id,
				greatest(extract(epoch FROM now())::bigint - 7200, extract(epoch FROM date_trunc('day', now(), 'UTC'))::bigint)
			FROM generate_series(1, %d) i JOIN ledger_accounts a ON a.org_id = md5('t' || i %% %d)::uuid AND a.name = 'balance'`, n, payingTenants),
		`VACUUM ANALYZE usage_records`, `VACUUM ANALYZE ledger_accounts`); err != nil {
		return nil, err
	}
	// A pass of a million intervals can exceed the time limits of the server's sessions on two busy
	// cores. This session has no limits, on both sides.
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["role"] = "gpuaas_work"
	cfg.MaxConns = lab.Connections + 4
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &meters{lab: l, url: url, pool: pool, service: &metering.Service{DB: pool}, n: n}, nil
}

// fresh deletes all charges.
func (m *meters) fresh(ctx context.Context) error {
	return m.lab.Exec(ctx, m.url, `TRUNCATE ledger_entries, ledger_transfers`, `TRUNCATE usage_ticks, usage_passes`, `CHECKPOINT`)
}

// charge executes one pass of ours and checks that it has charged every interval.
func (m *meters) charge(ctx context.Context) (time.Duration, error) {
	began := clock.Clock{}.Now()
	err := pass(ctx, m.service)
	took := clock.Clock{}.Now().Sub(began)
	if err != nil {
		return 0, err
	}
	// The pass writes one entry for each interval, and one revenue entry for each tenant.
	entries, err := lab.One[int](ctx, m.url, `SELECT count(*) FROM ledger_entries`)
	if err == nil && entries != m.n+payingTenants {
		err = fmt.Errorf("a pass over %d intervals wrote %d entries", m.n, entries)
	}
	return took, err
}

// Accrual compares a pass of accrual with the plain insert of the same entries into the same table.
// Both commit, and the table is empty before each.
func Accrual(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(intervals, 1000)
	m, err := newMeters(ctx, l, "l1", n)
	if err != nil {
		return nil, err
	}
	defer m.pool.Close()
	plain := func(ctx context.Context) (time.Duration, error) {
		to := clock.Clock{}.Now().Unix()
		return 0, pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, plainCharge, to-60, to)
			if err == nil && tag.RowsAffected() != int64(n) {
				err = fmt.Errorf("the plain insert wrote %d of %d entries", tag.RowsAffected(), n)
			}
			return err
		})
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, m.fresh, m.charge, plain)
	if err != nil {
		return nil, err
	}
	r := p.Row("L1", fmt.Sprintf("accrual of %d open intervals", n), n).AtMost(1.15)
	r.Note = "peer: INSERT … SELECT of the same entries into the same table"
	return []lab.Row{r}, nil
}

// pass closes the tick and charges, as the job does.
func pass(ctx context.Context, room *metering.Service) error {
	if err := room.Cut(ctx); err != nil {
		return err
	}
	ticks, err := room.Uncharged(ctx, room.DB)
	if err != nil {
		return err
	}
	for _, t := range ticks {
		if err := pgx.BeginFunc(ctx, room.DB, func(tx pgx.Tx) error {
			_, _, err := room.Charge(ctx, tx, t)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
