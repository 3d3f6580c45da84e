package ledger_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// An entry gets its id before its transaction commits. A checkpoint that passed
// over it would lose it for good.
func TestSealWaitsForOpenPostings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit(t, 100, "sealed")
	slow, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.promote(t, slow, 10, "slow"); err != nil {
		t.Fatal(err)
	}
	b.credit(t, 1, "fast")
	err = b.Seal(t.Context())
	if !ledger.Busy(err) {
		t.Errorf("sealed during an open posting: %v", err)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.holds(t, 111)
	b.credit(t, 1_000, "tail")
	b.holds(t, 1_111)
	if err := b.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Seal(t.Context()); err != nil { // nothing new: no second checkpoint
		t.Fatal(err)
	}
	b.holds(t, 1_111)
	var checkpoints int
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM ledger_checkpoints WHERE account_id = $1", b.balance).Scan(&checkpoints); err != nil || checkpoints != 2 {
		t.Errorf("%d checkpoints, %v", checkpoints, err)
	}
}

func (b *bundle) seal(t *testing.T) {
	t.Helper()
	if err := b.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) checkpoints(t *testing.T) (n int) {
	t.Helper()
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM ledger_checkpoints").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// An account whose sum overflows does not prevent the seals of the others.
func TestSealPassesOverWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit(t, 5, "one")
	b.seal(t)
	b.forge(t, `WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
			SELECT gen_random_uuid(), 'topup', 'much', org_id, 9223372036854775807 FROM ledger_accounts WHERE name = 'balance' RETURNING *)
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) SELECT t.id, a.id, amount_minor, 'EUR' FROM t JOIN ledger_accounts a USING (org_id)`)
	b.credit(t, 5, "two")
	b.seal(t)
	if n := b.checkpoints(t); n != 3 { // of promotions two
		t.Errorf("%d checkpoints", n)
	}
	if _, _, err := b.Balance(t.Context(), b.db, b.tenant); err == nil {
		t.Error("a balance wrapped")
	}
	if r, err := b.Verify(t.Context(), b.tenant); err != nil || r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
}

// Eight concurrent seals follow one another, and concurrent runs of Verify report no fault.
func TestConcurrentSealsMakeOneChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all errgroup.Group
	for i := range 8 {
		all.Go(func() error {
			for n := range 10 {
				err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
					_, err := b.Transfer(t.Context(), tx, b.gift(1, fmt.Sprint(i, " ", n)))
					return err
				})
				if err != nil {
					return err
				}
				if err := b.Seal(t.Context()); err != nil && !ledger.Busy(err) {
					return err
				}
				if r, err := b.Verify(t.Context(), ids.Tenant{}); err != nil || !r.OK() {
					return fmt.Errorf("%+v, %w", r, err)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	b.seal(t)
	b.holds(t, 80)
}
