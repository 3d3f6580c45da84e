package metering

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// A change of the price, with the rights of the role work, reaches each project whose bytes another transaction changes at the
// same time: one whose record that transaction has ended, and one whose first record it has opened.
func TestAPriceReachesBytesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	old := StoragePrice{Class: "s", PriceMinor: 1000, Currency: "EUR"}
	must(t, b.storagePrice(ctx, old, t0))
	first, second := Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Bytes: 1}, Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Bytes: 1}
	must(t, b.store(ctx, first, t0))
	_, _, err := b.tick(ctx, t0+60)
	must(t, err)
	must(t, b.clock.Set(ctx, t0+90))

	work := pgtest.As(t, b.db, "gpuaas_work")
	priced := make(chan error, 1)
	must(t, pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		for _, c := range []Stored{first, second} {
			batch := &pgx.Batch{}
			QueueStored(batch, c)
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
		}
		go func() {
			priced <- pgx.BeginFunc(ctx, work, func(tx pgx.Tx) error {
				return price(ctx, tx, StoragePrice{Class: "s", PriceMinor: 2000, Currency: "EUR"})
			})
		}()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			var waits bool
			if err := b.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
				OR EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil || waits {
				return err
			}
			if time.Now().After(end) {
				t.Error("the change of the price does not wait")
				return nil
			}
		}
	}))
	must(t, <-priced)
	for name, c := range map[string]Stored{"an ended record": first, "a first record": second} {
		var minor money.Minor
		must(t, b.db.QueryRow(ctx, `SELECT price_minor FROM usage_storage WHERE project_id = $1 AND end_s IS NULL`, c.Project).Scan(&minor))
		if minor != 2000 {
			t.Errorf("%s: the price stays %d", name, minor)
		}
	}
}
