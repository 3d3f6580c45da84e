package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// forge does what a superuser can: no trigger stops it.
func (b *bundle) forge(t *testing.T, sql string) {
	t.Helper()
	b.within(t, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql)
		return err
	})
}

func (b *bundle) verify(t *testing.T, of ids.Tenant, heads ...ledger.Chain) ledger.Report {
	t.Helper()
	r, err := b.Verify(t.Context(), of, heads...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// books are two tenants with entries behind two seals, and some in the open.
func books(t *testing.T) (b *bundle, other ids.Tenant) {
	t.Helper()
	b = setup(t)
	other = ids.New[ids.Tenant]()
	for round := range 3 {
		for _, tenant := range []ids.Tenant{b.tenant, other} {
			for n := range 3 {
				x := b.gift(money.Minor(100*(round+1)+n), fmt.Sprint(tenant, round, n))
				x.To, x.Note, x.Allocation = ledger.BalanceOf(tenant), "for trying", ids.New[ids.Allocation]()
				b.within(t, func(tx pgx.Tx) error {
					_, err := b.Transfer(t.Context(), tx, x)
					return err
				})
			}
		}
		if round < 2 {
			b.seal(t)
		}
	}
	return b, other
}

func TestVerifySaysWhatThereIs(t *testing.T) {
	t.Parallel()
	b, other := books(t)
	r := b.verify(t, ids.Tenant{})
	if !r.OK() || r.Entries != 36 || len(r.Chains) != 7 || r.Difference != 0 {
		t.Errorf("of all: %+v", r)
	}
	if n, since := r.Unsealed(); n != 12 || since.IsZero() {
		t.Errorf("%d not sealed since %s", n, since)
	}
	one := b.verify(t, other)
	if !one.OK() || len(one.Chains) != 1 || one.Entries != 9 {
		t.Fatalf("of one: %+v", one)
	}
	if c := one.Chains[0]; c.Tenant != other || c.Name != "balance" || c.Balance != 1809 || c.Derived != 1809 || c.Seals != 2 || c.Unsealed != 3 || len(c.Head) != 64 {
		t.Errorf("got %+v", c)
	}
	if r := b.verify(t, ids.New[ids.Tenant]()); !r.OK() || len(r.Chains) != 0 {
		t.Errorf("of no tenant: %+v", r)
	}
}

// places returns the values that the statements of a forger contain.
func (b *bundle) places(t *testing.T, other ids.Tenant) (r *strings.Replacer, second, open int64) {
	t.Helper()
	list, err := b.Entries(t.Context(), b.tenant, ledger.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var promotions, theirs uuid.UUID
	err = b.db.QueryRow(t.Context(), `SELECT p.id, o.id FROM ledger_accounts p, ledger_accounts o WHERE p.name = 'promotions' AND o.org_id = $1`, other).
		Scan(&promotions, &theirs)
	if err != nil {
		t.Fatal(err)
	}
	second, open = list[1].ID, list[7].ID
	return strings.NewReplacer(
		":balance", fmt.Sprintf("'%s'::uuid", b.balance), ":theirs", fmt.Sprintf("'%s'::uuid", theirs), ":promotions", fmt.Sprintf("'%s'::uuid", promotions),
		":mine", fmt.Sprintf("'%s'::uuid", b.tenant), ":other", fmt.Sprintf("'%s'::uuid", other),
		":sealed", fmt.Sprint(second), ":open", fmt.Sprint(open),
		":transfer", fmt.Sprintf("'%s'::uuid", list[1].Transfer), ":loose", fmt.Sprintf("'%s'::uuid", list[7].Transfer),
	), second, open
}

// INV-29: whatever a superuser changes behind a seal is found, with the account,
// the tenant and the stretch of entries.
func TestINV29AnEditByTheSuperuserIsFound(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"an amount":                  `UPDATE ledger_entries SET amount_minor = amount_minor + 1 WHERE id = :sealed`,
		"an amount, on both sides":   `UPDATE ledger_entries SET amount_minor = amount_minor * 2 WHERE transfer_id = :transfer`,
		"a sign, on both sides":      `UPDATE ledger_entries SET amount_minor = -amount_minor WHERE transfer_id = :transfer`,
		"two amounts that even out":  `UPDATE ledger_entries SET amount_minor = amount_minor + CASE id WHEN :sealed THEN 1 ELSE -1 END WHERE account_id = :balance AND id IN (:sealed, :sealed + 2)`,
		"a lost entry":               `DELETE FROM ledger_entries WHERE id = :sealed`,
		"a lost transfer":            `WITH t AS (DELETE FROM ledger_transfers WHERE id = :transfer) DELETE FROM ledger_entries WHERE transfer_id = :transfer`,
		"entries without a transfer": `DELETE FROM ledger_transfers WHERE id = :transfer`,
		"an inserted transfer": `WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES (gen_random_uuid(), 'test_credit', 'forged', :mine, 7) RETURNING id)
			INSERT INTO ledger_entries (id, transfer_id, account_id, amount_minor, currency) OVERRIDING SYSTEM VALUE
			SELECT :sealed + more, t.id, account, amount, 'EUR' FROM t, (VALUES (0, :balance, 7), (1, :promotions, -7)) AS side (more, account, amount)`,
		"whose it is":                 `UPDATE ledger_entries SET account_id = :theirs WHERE id = :sealed`,
		"accounts that were swapped":  `UPDATE ledger_entries SET account_id = CASE account_id WHEN :balance THEN :theirs ELSE :balance END WHERE account_id IN (:balance, :theirs)`,
		"the owner of the account":    `UPDATE ledger_accounts SET org_id = gen_random_uuid() WHERE id = :balance`,
		"the currency of the account": `UPDATE ledger_accounts SET currency = 'USD' WHERE id = :balance`,
		"an account that is gone":     `DELETE FROM ledger_accounts WHERE id = :balance`,
		"the currency of the entries": `UPDATE ledger_entries SET currency = 'USD' WHERE transfer_id = :transfer`,
		"what it is about":            `UPDATE ledger_entries SET allocation_id = gen_random_uuid() WHERE id = :sealed`,
		"when it counts":              `UPDATE ledger_entries SET at = at + interval '1 microsecond' WHERE id = :sealed`,
		"when it was written down":    `UPDATE ledger_transfers SET at = at - interval '1 microsecond' WHERE id = :transfer`,
		"the kind":                    `UPDATE ledger_transfers SET kind = 'topup' WHERE id = :transfer`,
		"the reference":               `UPDATE ledger_transfers SET reference = reference || '0' WHERE id = :transfer`,
		"the amount of a transfer":    `UPDATE ledger_transfers SET amount_minor = amount_minor + 1 WHERE id = :transfer`,
		"whose a transfer is":         `UPDATE ledger_transfers SET org_id = :other WHERE id = :transfer`,
		"the number of a transfer":    `UPDATE ledger_transfers SET seq = seq + 1000 WHERE id = :transfer`,
		"the note":                    `UPDATE ledger_transfers SET note = '' WHERE id = :transfer`,
		"a part of the note":          `UPDATE ledger_transfers SET reference = reference || ',for', note = 'trying' WHERE id = :transfer`,
		"whose a seal is":             `UPDATE ledger_checkpoints SET org_id = :other WHERE account_id = :balance`,
		"the sum of a seal":           `UPDATE ledger_checkpoints SET balance_minor = balance_minor + 1 WHERE account_id = :balance`,
		"the end of a seal":           `UPDATE ledger_checkpoints SET up_to = up_to - 1 WHERE account_id = :balance`,
		"the time of a seal":          `UPDATE ledger_checkpoints SET sealed_at = sealed_at + interval '1 second' WHERE account_id = :balance`,
		"the hash of a seal":          `UPDATE ledger_checkpoints SET chain = sha256(chain) WHERE account_id = :balance`,
		"a lost seal":                 `DELETE FROM ledger_checkpoints WHERE account_id = :balance AND up_to < :open AND balance_minor < 500`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, other := books(t)
			places, second, _ := b.places(t, other)
			b.forge(t, places.Replace(sql))
			r := b.verify(t, ids.Tenant{})
			found := slices.ContainsFunc(r.Faults, func(f ledger.Fault) bool {
				return f.Wrong == ledger.SealedChanged && f.Account == b.balance && f.After < second && second <= f.UpTo && !f.SealedAt.IsZero()
			})
			if r.OK() || !found {
				t.Errorf("found %+v", r.Faults)
			}
			if name == "an amount, on both sides" && (len(r.Faults) != 4 || r.Difference != 202) {
				t.Errorf("a difference of %d, %+v", r.Difference, r.Faults) // balance and chain, of both accounts
			}
		})
	}
}

// The chain does not protect unsealed entries, but the sums do.
func TestVerifyFindsWhatIsWrongInTheOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql   string
		wrong ledger.Wrong
	}{
		"an amount":                      {`UPDATE ledger_entries SET amount_minor = amount_minor + 1 WHERE id = :open`, ledger.TransferUnbalanced},
		"an entry":                       {`DELETE FROM ledger_entries WHERE account_id = :promotions AND transfer_id = :loose`, ledger.TransferUnbalanced},
		"entries":                        {`DELETE FROM ledger_entries WHERE transfer_id = :loose`, ledger.TransferUnbalanced},
		"a transfer":                     {`DELETE FROM ledger_transfers WHERE id = :loose`, ledger.TransferMissing},
		"a currency, on both sides":      {`UPDATE ledger_entries SET currency = 'USD' WHERE transfer_id = :loose`, ledger.CurrencyDiffers},
		"a currency, on one":             {`UPDATE ledger_entries SET currency = 'USD' WHERE id = :open`, ledger.TransferUnbalanced},
		"an amount, on both sides":       {`UPDATE ledger_entries SET amount_minor = amount_minor * 2 WHERE transfer_id = :loose`, ledger.BalanceDiffers},
		"the amount of a transfer":       {`UPDATE ledger_transfers SET amount_minor = amount_minor * 2 WHERE id = :loose`, ledger.BalanceDiffers},
		"whose a transfer is":            {`UPDATE ledger_transfers SET org_id = :other WHERE id = :loose`, ledger.BalanceDiffers},
		"an account that does not exist": {`UPDATE ledger_entries SET account_id = gen_random_uuid() WHERE id = :open`, ledger.AccountMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, other := books(t)
			places, _, open := b.places(t, other)
			b.forge(t, places.Replace(c.sql))
			r := b.verify(t, ids.Tenant{})
			if r.OK() || !slices.ContainsFunc(r.Faults, func(f ledger.Fault) bool { return f.Wrong == c.wrong }) {
				t.Errorf("found %+v", r.Faults)
			}
			for _, f := range r.Faults {
				if f.Wrong == ledger.CurrencyDiffers && f.Account == b.balance && (f.After != open-1 || f.UpTo != open) {
					t.Errorf("not there: %+v", f)
				}
			}
			if one := b.verify(t, b.tenant); name == "an amount" && (len(one.Faults) != 2 || one.Faults[0].Tenant != b.tenant || one.Faults[0].Minor != -1 || one.Faults[1].Minor != 1) {
				t.Errorf("of the tenant alone: %+v", one.Faults)
			}
			if r := b.verify(t, other); r.OK() == (name == "whose a transfer is") {
				t.Errorf("of another tenant: %+v", r.Faults)
			}
		})
	}
}

// Forged entries and seals that fit each other are detected by a head that was stored elsewhere, and by
// nothing else.
func TestAStoredHeadFindsARewrittenHistory(t *testing.T) {
	t.Parallel()
	b, other := books(t)
	before := b.verify(t, ids.Tenant{})
	b.seal(t)
	after := b.verify(t, ids.Tenant{}, before.Chains...)
	if !after.OK() {
		t.Fatalf("heads of before: %+v", after.Faults)
	}
	places, _, _ := b.places(t, other)
	b.forge(t, places.Replace(`UPDATE ledger_entries SET amount_minor = amount_minor * 2 WHERE transfer_id = :transfer`))
	b.forge(t, `DELETE FROM ledger_checkpoints`)
	b.seal(t)
	if r := b.verify(t, ids.Tenant{}); !r.OK() {
		t.Errorf("without a head: %+v", r.Faults)
	}
	for _, heads := range [][]ledger.Chain{before.Chains, after.Chains} {
		r := b.verify(t, b.tenant, heads...)
		if len(r.Faults) != 1 || r.Faults[0].Wrong != ledger.HeadLost || r.Faults[0].Tenant != b.tenant || r.Faults[0].UpTo == 0 {
			t.Errorf("with a head: %+v", r.Faults)
		}
	}
	b.forge(t, places.Replace(`DELETE FROM ledger_entries WHERE account_id = :balance`))
	b.forge(t, places.Replace(`DELETE FROM ledger_accounts WHERE id = :balance`))
	b.forge(t, places.Replace(`DELETE FROM ledger_checkpoints WHERE account_id = :balance`))
	if r := b.verify(t, b.tenant, before.Chains...); len(r.Faults) != 1 || r.Faults[0].Account != b.balance {
		t.Errorf("of an account that is gone: %+v", r.Faults)
	}
}

// So many faults mean that all is lost: the list ends.
func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.forge(t, `INSERT INTO ledger_transfers (id, kind, reference, amount_minor) SELECT gen_random_uuid(), 'topup', i::text, 0 FROM generate_series(1, 300) i`)
	if r := b.verify(t, ids.Tenant{}); len(r.Faults) != 200 || !r.More || r.OK() {
		t.Errorf("%d faults, more: %t", len(r.Faults), r.More)
	}
}
