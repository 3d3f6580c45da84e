package payment_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// INV-63: payments are credited, and then the database is restored to a time before. The sweep credits each of them once more, in the
// restored database, and none twice. A payment whose session was lost is credited to no tenant.
func TestINV63PaymentsOfTheLostTimeAreCreditedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	b.sweep()
	paidLater := b.begin(price)
	b.api.DB.(pg.Scoped).Pool.Reset()
	b.work.DB.(*pgxpool.Pool).Reset()
	backup := pgtest.Copy(t, b.db)

	b.deliver(b.provider.pay(paidLater, false))
	b.processAll()
	b.credited()
	b.sweep()
	b.expect(3 * price)

	scoped, worker := pgtest.Scoped(t, backup), pgtest.As(t, backup, "gpuaas_work")
	b.db, b.api, b.work = backup, b.service(scoped, scoped.Pool), b.service(worker, worker)
	if found := b.sweep(); found.Events != 2 {
		t.Errorf("the sweep after the restore has found %+v", found)
	}
	for range 2 {
		if s := b.session(paidLater.ID); s.State != payment.Credited {
			t.Errorf("the payment of a known session is %s: %s", s.State, s.Reason)
		}
		if balance, _, err := b.work.Ledger.Balance(t.Context(), b.db, b.caller.Tenant); err != nil || balance != 2*price {
			t.Errorf("balance %d, want %d: %v", balance, 2*price, err)
		}
		if again := b.sweep(); again.Events != 0 {
			t.Errorf("one more sweep has found %+v", again)
		}
	}
}
