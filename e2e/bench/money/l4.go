package money

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// L4 posts this many transfers in each run, each in its own transaction.
const (
	postings = 8000
	spread   = 256 // tenants, unless all are of one
)

// workRole is the database role of the workers, which post transfers.
const workRole = "gpuaas_work"

// Posting compares the transfer of the ledger with the same three rows with given ids, written through the same driver,
// and one tenant's account with many.
func Posting(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(postings, 10*lab.Connections) / lab.Connections * lab.Connections
	url, err := l.Database(ctx, "l4")
	if err != nil {
		return nil, err
	}
	account := fmt.Sprintf("('%s' || (%d + i))::uuid", lab.TenantPrefix, int64(lab.First))
	if err := l.Exec(ctx, url,
		fmt.Sprintf(`INSERT INTO ledger_accounts (id, org_id, name, currency) SELECT %s, %s, 'balance', 'EUR' FROM generate_series(0, %d) i`, account, account, spread-1),
		`INSERT INTO ledger_accounts (id, name, currency) VALUES ('`+promotions+`', 'promotions', 'EUR')`, `VACUUM ANALYZE ledger_accounts`); err != nil {
		return nil, err
	}
	pool, err := pg.OpenAs(ctx, url, workRole, "bench", lab.Connections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	each := func(post func(ctx context.Context, k int) error) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			all, ctx := errgroup.WithContext(ctx)
			for c := range lab.Connections {
				all.Go(func() error {
					for k := c; k < n; k += lab.Connections {
						if err := post(ctx, k); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return 0, all.Wait()
		}
	}
	ours := func(tenants int) lab.Side {
		return each(func(ctx context.Context, k int) error { return postOne(ctx, pool, k%tenants) })
	}
	peer := each(func(ctx context.Context, k int) error { return insertOne(ctx, pool, k%spread) })
	empty := func(ctx context.Context) error {
		return l.Exec(ctx, url, `TRUNCATE ledger_entries, ledger_transfers`, `CHECKPOINT`)
	}
	written := func(do lab.Side) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			took, err := do(ctx)
			if err != nil {
				return 0, err
			}
			rows, err := lab.One[int](ctx, url, `SELECT (SELECT count(*) FROM ledger_transfers) * 10 + (SELECT count(*) FROM ledger_entries)`)
			if err == nil && rows != 12*n {
				err = fmt.Errorf("%d postings did not leave a transfer and two entries each", n)
			}
			return took, err
		}
	}
	for _, do := range []lab.Side{ours(spread), peer} { // the same rows
		if err := empty(ctx); err != nil {
			return nil, err
		}
		if _, err := written(do)(ctx); err != nil {
			return nil, err
		}
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, empty, ours(spread), peer)
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, n, "L4", "posting a transfer / the same three rows through the same driver").AtLeast(0.8)
	r.Note = fmt.Sprintf("%d transactions a run over %d connections; both under the same triggers", n, lab.Connections)
	hot, err := l.Alternate(ctx, lab.LeastPairs, empty, ours(1), ours(spread))
	if err != nil {
		return nil, err
	}
	return []lab.Row{r, lab.Throughput(hot, n, "L4-hot", fmt.Sprintf("posting to one tenant / to %d", spread)).AtLeast(0.9)}, nil
}

const promotions = "ffffffff-0000-7000-8000-000000000001"

func tenantOf(i int) (ids.Tenant, error) {
	return ids.Parse[ids.Tenant](fmt.Sprintf("%s%d", lab.TenantPrefix, int64(lab.First)+int64(i)))
}

func postOne(ctx context.Context, db pg.DB, tenant int) error {
	of, err := tenantOf(tenant)
	if err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7())
	b := &pgx.Batch{}
	ledger.QueueTransfer(b, ledger.Transfer{
		ID: id, Kind: ledger.TestCredit, Reference: id.String(), From: ledger.Promotions, To: ledger.BalanceOf(of), Amount: 5, Currency: "EUR",
	}, nil)
	return pg.Commit(ctx, db, b, func() {})
}

// insertOne writes what postOne writes. The id of a tenant is that of its account.
func insertOne(ctx context.Context, db pg.DB, tenant int) error {
	of, err := tenantOf(tenant)
	if err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7())
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO ledger_transfers (id, kind, reference, note, org_id, amount_minor) VALUES ($1, 'test_credit', $2, '', $3, 5)`, id, id.String(), of.UUID)
	b.Queue(`INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) VALUES ($1, $2, -5, 'EUR'), ($1, $3, 5, 'EUR')`, id, promotions, of.UUID)
	return pg.Commit(ctx, db, b, func() {})
}
