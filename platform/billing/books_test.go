package billing_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/metering/meteringtest"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// BILL-11: consistent books have no fault. A change with the triggers disabled is found, with its
// amount.
func TestExamine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper string
		fault  string
		by     money.Minor
	}{
		"nothing":                     {`SELECT`, "", 0},
		"an entry is worth more":      {`UPDATE ledger_entries SET amount_minor = amount_minor + 7 WHERE id = (SELECT min(id) FROM ledger_entries WHERE amount_minor > 0)`, "ledger: ", 7},
		"less was used":               {`UPDATE usage_records SET start_s = start_s + 60`, "usage: ", allocationtest.Price / 60},
		"a payment without a session": {`UPDATE ledger_transfers SET kind = 'topup' WHERE kind = 'test_credit'`, "payments: ", 1000},
		"a payment is worth more":     {`UPDATE stripe_payments SET amount_minor = amount_minor + 3`, "payments: ", 3},
		"a payment is forgotten":      {`DELETE FROM stripe_payments`, "payments: ", 50},
		"a charge that was removed":   {`DELETE FROM ledger_entries WHERE transfer_id IN (SELECT id FROM ledger_transfers WHERE kind = 'usage')`, "usage: ", allocationtest.Price},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, 1000)
			w.Node(t, "node-1", 1)
			now := queryOne[int64](t, w, `SELECT extract(epoch FROM now())::bigint`)
			clock := meteringtest.New(t, w.DB, now-3600)
			w.Active(t, 1)
			must(t, clock.Set(t.Context(), now))
			m := &metering.Service{DB: w.DB}
			must(t, m.Cut(t.Context()))
			ticks, err := m.Uncharged(t.Context(), w.DB)
			must(t, err)
			for _, tick := range ticks {
				w.Do(t, func(tx pgx.Tx) error {
					_, _, err := m.Charge(t.Context(), tx, tick)
					return err
				})
			}
			w.Do(t, func(tx pgx.Tx) error { return paid(t, w, tx, 50) })
			w.Do(t, func(tx pgx.Tx) error {
				b := &pgx.Batch{}
				b.Queue(`SET LOCAL session_replication_role = replica`)
				b.Queue(c.tamper)
				return tx.SendBatch(t.Context(), b).Close()
			})

			work := pgtest.As(t, w.DB, "gpuaas_work")
			s := &billing.Service{
				DB: work, Ledger: &ledger.Service{DB: work}, Metering: &metering.Service{DB: work}, Payments: &payment.Service{DB: work}, Metrics: billing.NewMetrics(),
			}
			books, err := s.Examine(t.Context())
			must(t, err)
			faults := strings.Join(books.Faults(), "\n")
			switch {
			case books.Whole() != (c.fault == ""), !strings.Contains(faults, c.fault):
				t.Errorf("found %q", faults)
			case books.Mismatch()["EUR"] < c.by, c.by == 0 && books.Mismatch()["EUR"] != 0:
				t.Errorf("off by %v: %s", books.Mismatch(), faults)
			}
			if got := metricOf(t, s.Metrics); got != books.Mismatch()["EUR"] {
				t.Errorf("exported as %d of %v", got, books.Mismatch())
			}
			if books.Ticks == 0 {
				t.Error("no usage was compared")
			}
		})
	}
}

// metricOf returns the value that Prometheus would scrape.
func metricOf(t *testing.T, f *billing.Metrics) money.Minor {
	t.Helper()
	registry := prometheus.NewRegistry()
	must(t, registry.Register(f))
	families, err := registry.Gather()
	must(t, err)
	if len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("%v", families)
	}
	return money.Minor(families[0].GetMetric()[0].GetGauge().GetValue())
}

// paid credits a payment with the statements of the payment package.
func paid(t *testing.T, w *allocationtest.Fixture, tx pgx.Tx, amount money.Minor) error {
	t.Helper()
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at)
		VALUES ('01990000-0000-7000-8000-000000000001', $1, $2, $3, 'EUR', 'credited', false, now())`, w.Caller.Tenant, w.Caller.User, amount)
	b.Queue(`INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id)
		VALUES ('pi_1', '01990000-0000-7000-8000-000000000001', $1, $2, 'EUR', '01990000-0000-7000-8000-000000000002')`, w.Caller.Tenant, amount)
	x := ledger.Transfer{Kind: ledger.TopUp, Reference: "pi_1", From: ledger.Clearing, To: ledger.BalanceOf(w.Caller.Tenant), Amount: amount, Currency: "EUR"}
	if err := x.ID.UnmarshalText([]byte("01990000-0000-7000-8000-000000000002")); err != nil {
		return err
	}
	ledger.QueueTransfer(b, x, nil)
	return tx.SendBatch(t.Context(), b).Close()
}

func queryOne[T any](t *testing.T, w *allocationtest.Fixture, sql string) (v T) {
	t.Helper()
	must(t, w.DB.QueryRow(t.Context(), sql).Scan(&v))
	return v
}
