package money

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// The goal of B6 is stated for 100,000 projects with files.
const storingProjects = 100_000

// plainStorage writes the same transfers and entries from amounts that need no computation.
const plainStorage = `
	WITH charges AS MATERIALIZED (
		SELECT gen_random_uuid() AS transfer_id, org_id, project_id, account_id, currency, 1 AS amount_minor FROM usage_storage WHERE end_s IS NULL
	), transfers AS (
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) SELECT transfer_id, 'storage', $1::text || ' ' || project_id, org_id, -amount_minor FROM charges
	), entries AS (
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency)
		SELECT transfer_id, account_id, -amount_minor, currency FROM charges
		UNION ALL
		SELECT transfer_id, (SELECT id FROM ledger_accounts WHERE name = 'revenue'), amount_minor, currency FROM charges
	)
	SELECT count(*) FROM charges`

// Storage compares a pass over the files of all projects with the plain insert of the same transfers and entries. Each project
// has a charge in the pass.
func Storage(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(storingProjects, 1000)
	m, err := newMeters(ctx, l, "b6", 1)
	if err != nil {
		return nil, err
	}
	defer m.pool.Close()
	if err := l.Exec(ctx, m.url, fmt.Sprintf(`
		INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, account_id, start_s, changed_s, bytes, owed_before)
		SELECT md5('p' || i)::uuid, a.org_id, 'standard', 3000, 0, 'EUR', a.id, s, s, (1::bigint << 40) + i, 0
		FROM generate_series(1, %d) i JOIN ledger_accounts a ON a.org_id = md5('t' || i %% %d)::uuid AND a.name = 'balance'
		CROSS JOIN (SELECT greatest(extract(epoch FROM now())::bigint - 7200, extract(epoch FROM date_trunc('day', now(), 'UTC'))::bigint) AS s) began`, n, payingTenants),
		`VACUUM ANALYZE usage_storage`); err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		began := clock.Clock{}.Now()
		err := pass(ctx, m.service)
		took := clock.Clock{}.Now().Sub(began)
		if err != nil {
			return 0, err
		}
		transfers, err := lab.One[int](ctx, m.url, `SELECT count(*) FROM ledger_transfers WHERE kind = 'storage'`)
		if err == nil && transfers != n {
			err = fmt.Errorf("a pass over %d projects wrote %d transfers", n, transfers)
		}
		return took, err
	}
	plain := func(ctx context.Context) (time.Duration, error) {
		return 0, pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
			var wrote int
			err := tx.QueryRow(ctx, plainStorage, "plain").Scan(&wrote)
			if err == nil && wrote != n {
				err = fmt.Errorf("the plain insert wrote %d of %d transfers", wrote, n)
			}
			return err
		})
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, m.fresh, ours, plain)
	if err != nil {
		return nil, err
	}
	r := p.Row("B6", fmt.Sprintf("charging the files of %d projects", n), n).AtMost(1.15)
	r.Note = "peer: INSERT … SELECT of the same transfers and entries"
	return []lab.Row{r}, nil
}
