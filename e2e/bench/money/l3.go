package money

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// L3 reads so many balances in a row on one connection, of a hundred tenants in
// turn. A tenant's history is of twelve months in its large form and of the last
// one in the small; since the last seal there were ten passes, each of twenty
// allocations, and a payment.
const (
	balanceReads  = 4000
	savers        = 100
	otherTenants  = 5000 // with one transfer each, so that PostgreSQL does not scan the accounts as a small table
	shortHistory  = 200  // transfers of each
	longHistory   = 10 * shortHistory
	passesUnseal  = 10
	chargedAtOnce = 20
	balancePairs  = 11
)

// Balances compares the read of a balance in the API with the read of one row by its primary key,
// and a long history with a short one.
func Balances(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	short, long, others := shortHistory, longHistory, otherTenants
	if l.Smoke {
		short, long, others = short/20, long/20, others/20
	}
	few, err := newSavings(ctx, l, "l3few", others, short, 1)
	if err != nil {
		return nil, err
	}
	defer few.pool.Close()
	many, err := newSavings(ctx, l, "l3many", others, long, 12)
	if err != nil {
		return nil, err
	}
	defer many.pool.Close()
	n, nothing := l.Scaled(balanceReads, 50), func(context.Context) error { return nil }
	read := func(s savings) lab.Side {
		room, db := &ledger.Service{DB: s.pool}, pg.Scoped{Pool: s.pool}
		return s.forEach(n, func(ctx context.Context, t ids.Tenant) error {
			_, _, err := room.Balance(ctx, db, t)
			return err
		})
	}
	key := few.forEach(n, func(ctx context.Context, t ids.Tenant) error {
		var minor int64
		var currency string
		return pg.Scoped{Pool: few.pool}.QueryRow(ctx, `SELECT minor, currency FROM stored_balances WHERE org_id = $1`, t).Scan(&minor, &currency)
	})
	var rows []lab.Row
	p, err := l.Alternate(ctx, balancePairs, nothing, read(few), key)
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, n, "L3", "balance / one row by primary key, both under the tenant's scope").AtLeast(0.6)
	r.Note = fmt.Sprintf("%d reads a run on one connection; %d transfers and a payment since the seal", n, passesUnseal)
	rows = append(rows, r)
	if p, err = l.Alternate(ctx, balancePairs, nothing, read(many), read(few)); err != nil {
		return nil, err
	}
	r = p.Row("L3-slope", fmt.Sprintf("balance after %d transfers in 12 months / after %d in one", long, short), n).AtMost(1.05)
	r.Unit, r.Ours, r.Peer = " µs", 1e6*r.Ours/float64(n), 1e6*r.Peer/float64(n)
	return append(rows, r), nil
}

// savings is a database whose tenants have a history.
type savings struct {
	pool    *pgxpool.Pool
	tenants []ids.Tenant
}

func ensure(from, to int) string {
	return fmt.Sprintf(`DO $$ BEGIN PERFORM ledger_ensure_accounts(md5('t' || i)::uuid, 'EUR') FROM generate_series(%d, %d) i; END $$`, from, to)
}

// newSavings creates the history, seals it, and charges ten more times.
func newSavings(ctx context.Context, l *lab.Lab, name string, others, history, months int) (s savings, err error) {
	url, err := l.Database(ctx, name)
	if err != nil {
		return s, err
	}
	statements := []string{ensure(1, savers)}
	for m := range months {
		statements = append(statements, fmt.Sprintf(`DO $$ DECLARE month timestamptz := date_trunc('month', now() - interval '%d months'); BEGIN
			IF to_regclass('ledger_entries_' || to_char(month, 'YYYYMM')) IS NULL THEN
				EXECUTE format('CREATE TABLE %%I PARTITION OF ledger_entries FOR VALUES FROM (%%L) TO (%%L)', 'ledger_entries_' || to_char(month, 'YYYYMM'), month, month + interval '1 month');
			END IF; END $$`, m))
	}
	statements = append(statements, post(fmt.Sprintf("generate_series(1, %d)", history), fmt.Sprintf("date_trunc('month', now() - n %% %d * interval '1 month')", months), 1),
		ensure(savers+1, savers+others), post("generate_series(1000000, 1000000)", "now()", 1))
	if err := l.Exec(ctx, url, statements...); err != nil {
		return s, err
	}
	owner, err := pg.Open(ctx, url, "bench", 2)
	if err != nil {
		return s, err
	}
	defer owner.Close()
	if err := (&ledger.Service{DB: owner}).Seal(ctx); err != nil {
		return s, err
	}
	err = l.Exec(ctx, url, post(fmt.Sprintf("generate_series(1000001, %d)", 1000001+passesUnseal), "now()", chargedAtOnce),
		`CREATE TABLE stored_balances (org_id uuid PRIMARY KEY, minor bigint NOT NULL, currency text NOT NULL)`,
		`INSERT INTO stored_balances SELECT org_id, 1, 'EUR' FROM ledger_accounts WHERE org_id IS NOT NULL`,
		`GRANT SELECT ON stored_balances TO gpuaas_api`, `SELECT scope_rows('stored_balances', 'org_id = (SELECT scope_tenant())')`, `VACUUM ANALYZE`)
	if err != nil {
		return s, err
	}
	rows, err := owner.Query(ctx, `SELECT md5('t' || i)::uuid FROM generate_series(1, $1) i`, savers)
	if err != nil {
		return s, fmt.Errorf("listing tenants: %w", err)
	}
	if s.tenants, err = pgx.CollectRows(rows, pgx.RowTo[ids.Tenant]); err != nil {
		return s, fmt.Errorf("listing tenants: %w", err)
	}
	s.pool, err = pg.OpenAs(ctx, url, lab.ApiRole, "bench", 1)
	return s, err
}

// post writes one transfer for each of the numbers and each tenant: the given number of entries on
// the tenant's side and one revenue entry.
func post(numbers, at string, entries int) string {
	return fmt.Sprintf(`
	WITH t AS (
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
		SELECT gen_random_uuid(), 'usage', n || ' ' || a.id, a.org_id, -%[3]d FROM %[1]s n, ledger_accounts a WHERE a.org_id IS NOT NULL RETURNING id, org_id, reference
	)
	INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency, at)
	SELECT t.id, e.account, gen_random_uuid(), e.amount, 'EUR', %[2]s
	FROM t JOIN ledger_accounts a USING (org_id) CROSS JOIN LATERAL (SELECT split_part(t.reference, ' ', 1)::int AS n) n CROSS JOIN LATERAL (
		SELECT a.id AS account, -1 AS amount FROM generate_series(1, %[3]d)
		UNION ALL SELECT (SELECT id FROM ledger_accounts WHERE name = 'revenue'), %[3]d) e`, numbers, at, entries)
}

// forEach reads n balances, of the tenants in turn, each in the scope of its tenant.
func (s savings) forEach(n int, read func(context.Context, ids.Tenant) error) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for i := range n {
			t := s.tenants[i%len(s.tenants)]
			if err := read(pg.WithScope(ctx, pg.Scope{Tenant: t.String()}), t); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
}
