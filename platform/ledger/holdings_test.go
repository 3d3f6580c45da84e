package ledger

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestHoldings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history                 []movement
		paid, promised, charged money.Minor
	}{
		"nothing": {},
		"promotional credit is used first": {
			history: []movement{{TopUp, 50}, {TestCredit, 100}, {Usage, -120}}, paid: 30, charged: 120,
		},
		"files are used as allocations are": {
			history: []movement{{TopUp, 50}, {TestCredit, 100}, {Storage, -110}, {Usage, -10}}, paid: 30, charged: 120,
		},
		"credit that came after the use leaves the paid part as it was": {
			history: []movement{{TopUp, 50}, {Usage, -50}, {TestCredit, 100}}, promised: 100, charged: 50,
		},
		"a credited fault returns to the paid part": {
			history: []movement{{TopUp, 100}, {Usage, -50}, {FaultCredit, 50}}, paid: 100,
		},
		"promotional credit that was used and credited stays promotional": {
			history: []movement{{TestCredit, 100}, {TopUp, 10}, {Usage, -100}, {RefundLedger, 100}}, paid: 10, promised: 100,
		},
		"a fault credited twice is not paid credit": {
			history: []movement{{TopUp, 10}, {Usage, -10}, {FaultCredit, 10}, {FaultCredit, 10}}, paid: 10, promised: 10, charged: -10,
		},
		"adjustments are not paid": {
			history: []movement{{Adjustment, 70}, {TopUp, 30}, {Adjustment, -80}}, paid: 20,
		},
		"refunds and disputes reduce the paid part": {
			history: []movement{{TopUp, 100}, {RefundCardUnspent, -40}, {RefundReversed, 40}, {Dispute, -100}, {TestCredit, 5}}, promised: 5,
		},
		"a dispute after the use is a debt": {
			history: []movement{{TopUp, 100}, {Usage, -100}, {Dispute, -100}, {TestCredit, 30}}, paid: -100, promised: 30, charged: 100,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h Holdings
			for _, m := range c.history {
				h = h.add(m)
			}
			if h.Paid != c.paid || h.Promotional != c.promised || h.Charged != c.charged {
				t.Errorf("got %+v", h)
			}
		})
	}
}

// Whatever the history, the parts sum to the balance, and no promotional credit becomes paid credit.
func TestHoldingsSumToTheBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Holdings
		var balance, paidIn money.Minor
		for range rapid.IntRange(0, 40).Draw(t, "movements") {
			kind := rapid.SampledFrom([]Kind{TestCredit, TopUp, Usage, FaultCredit, RefundLedger, Adjustment, Dispute, DisputeReversed}).Draw(t, "kind")
			amount := money.Minor(rapid.Int64Range(1, 1000).Draw(t, "amount"))
			if kind == Usage || kind == Dispute || kind == Adjustment && rapid.Bool().Draw(t, "reduces") {
				amount = -amount
			}
			if kind == TopUp || kind == Dispute || kind == DisputeReversed {
				paidIn += amount
			}
			balance += amount
			h = h.add(movement{kind, amount})
		}
		if h.Balance() != balance || h.Promotional < 0 || h.Paid > paidIn {
			t.Fatalf("balance %d, paid in %d: %+v", balance, paidIn, h)
		}
	})
}

// The statement returns the oldest transfer first, with one row for the usage between two of them.
func TestHoldingsAreReadInOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &Service{DB: db}
	tenant := ids.New[ids.Tenant]()
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		account, err := s.EnsureAccounts(t.Context(), tx, tenant, "EUR")
		if err != nil {
			return err
		}
		for i, m := range []movement{{TopUp, 50}, {Usage, -20}, {Usage, -30}, {TestCredit, 100}, {Usage, -1}, {Usage, -2}} {
			id := uuid.Must(uuid.NewV7())
			if _, err := tx.Exec(t.Context(), `INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES ($1, $2, $3, $4, $5)`,
				id, m.Kind, string(rune('a'+i)), tenant, m.Amount); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), `INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency)
				SELECT $1::uuid, $2::uuid, $3::bigint, 'EUR' UNION ALL SELECT $1, id, -$3::bigint, 'EUR' FROM ledger_accounts WHERE name = 'revenue'`, id, account, m.Amount); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	var got Holdings
	QueueHoldings(b, tenant, func(h Holdings) error { got = h; return nil })
	QueueHoldings(b, ids.New[ids.Tenant](), func(h Holdings) error {
		if h != (Holdings{}) {
			t.Errorf("another tenant has %+v", h)
		}
		return nil
	})
	if err := db.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	if got.Paid != 0 || got.Promotional != 97 || got.Charged != 53 {
		t.Errorf("got %+v", got)
	}
}
