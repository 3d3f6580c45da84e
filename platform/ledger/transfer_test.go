package ledger_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

func TestOneReferenceHasOneEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit(t, 500, "start")
	b.credit(t, 500, "start")
	b.credit(t, 30, "more")
	b.holds(t, 530)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
				return b.promote(t, tx, 7, "at once")
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.holds(t, 537)
}

func TestInvalidTransferIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, spoil := range map[string]func(*ledger.Transfer){
		"nothing":                func(x *ledger.Transfer) { x.Amount = 0 },
		"backwards":              func(x *ledger.Transfer) { x.Amount = -5 },
		"too much":               func(x *ledger.Transfer) { x.Amount = 1e15 + 1 },
		"no id":                  func(x *ledger.Transfer) { x.ID = uuid.Nil },
		"no reference":           func(x *ledger.Transfer) { x.Reference = "" },
		"no currency":            func(x *ledger.Transfer) { x.Currency = "" },
		"long note":              func(x *ledger.Transfer) { x.Note = strings.Repeat("é", 513) },
		"unknown kind":           func(x *ledger.Transfer) { x.Kind = "correction" },
		"usage":                  func(x *ledger.Transfer) { x.Kind, x.From, x.To = ledger.Usage, x.To, ledger.Revenue },
		"wrong way":              func(x *ledger.Transfer) { x.From, x.To = x.To, x.From },
		"to itself":              func(x *ledger.Transfer) { x.From = x.To },
		"unknown account":        func(x *ledger.Transfer) { x.To.Name = "savings" },
		"balance of no tenant":   func(x *ledger.Transfer) { x.To.Tenant = ids.Tenant{} },
		"other currency":         func(x *ledger.Transfer) { x.Currency = "USD" },
		"platform's of a tenant": func(x *ledger.Transfer) { x.From.Tenant = b.tenant },
	} {
		t.Run(name, func(t *testing.T) {
			x := b.gift(5, name)
			spoil(&x)
			err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
				posted, err := b.Transfer(t.Context(), tx, x)
				if posted {
					t.Error("reports that it was posted")
				}
				return err
			})
			if err == nil {
				t.Error("was posted")
			}
		})
	}
	b.holds(t, 0)
}

// Each kind moves money between its own accounts, and adds to one what it subtracts from the other.
func TestEveryKindGoesItsWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine := ledger.BalanceOf(b.tenant)
	for _, c := range []struct {
		kind     ledger.Kind
		from, to ledger.Account
		after    money.Minor // of the balance
	}{
		{ledger.TopUp, ledger.Clearing, mine, 10},
		{ledger.TestCredit, ledger.Promotions, mine, 20},
		{ledger.Adjustment, ledger.Adjustments, mine, 30},
		{ledger.Adjustment, mine, ledger.Adjustments, 20},
		{ledger.FaultCredit, ledger.Revenue, mine, 30},
		{ledger.RefundCardUnspent, mine, ledger.Clearing, 20},
		{ledger.RefundCardCharge, ledger.Refunds, ledger.Clearing, 20},
		{ledger.RefundLedger, ledger.Refunds, mine, 30},
		{ledger.RefundReversed, ledger.Clearing, mine, 40},
		{ledger.RefundReversed, ledger.Clearing, ledger.Refunds, 40},
	} {
		b.within(t, func(tx pgx.Tx) error {
			x := ledger.Transfer{ID: uuid.Must(uuid.NewV7()), Kind: c.kind, Reference: uuid.NewString(), From: c.from, To: c.to, Amount: 10, Currency: "EUR"}
			if posted, err := b.Transfer(t.Context(), tx, x); err != nil || !posted {
				t.Errorf("%s from %s to %s: %t, %v", c.kind, c.from.Name, c.to.Name, posted, err)
			}
			return nil
		})
		b.holds(t, c.after)
	}
}

func TestARepeatSaysThatItIsOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, fresh := range []bool{true, false} {
		posted, batch := !fresh, &pgx.Batch{}
		ledger.QueueTransfer(batch, b.gift(5, "once"), &posted)
		ledger.QueueTransfer(batch, b.gift(5, "no request"), nil)
		if err := pg.Commit(t.Context(), b.db, batch, func() {}); err != nil || posted != fresh {
			t.Errorf("posted %t, %v", posted, err)
		}
	}
	b.holds(t, 10)
}

// The first transfer of a tenant creates its account, in the currency of the transfer.
func TestFirstMoneyMakesTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tenant = ids.New[ids.Tenant]()
	b.credit(t, 5, "first")
	b.holds(t, 5)
	x := b.gift(5, "second")
	x.Currency = "USD"
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.Transfer(t.Context(), tx, x)
		return err
	})
	if errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "the balance of this tenant is not in USD") {
		t.Errorf("got %v", err)
	}
	// The first transfer in a currency creates the accounts of the platform, too.
	b.tenant = ids.New[ids.Tenant]()
	x = b.gift(5, "first in dollars")
	x.Currency = "USD"
	if err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.Transfer(t.Context(), tx, x)
		return err
	}); err != nil {
		t.Error(err)
	}
	if got, currency, err := b.Balance(t.Context(), b.db, b.tenant); err != nil || got != 5 || currency != "USD" {
		t.Errorf("balance %d %s, %v", got, currency, err)
	}
}

// Where money is moved for a tenant, it is the platform that moves it.
func TestTheTenantsScopeMovesNoMoney(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for who, c := range map[string]struct {
		db  pg.Pool
		ctx pg.Scope
		may bool
	}{
		"a worker":    {pgtest.As(t, b.db, "gpuaas_work"), pg.Scope{}, true},
		"an operator": {pgtest.Scoped(t, b.db), pg.Platform, true},
		"a tenant":    {pgtest.Scoped(t, b.db), pg.Scope{Tenant: b.tenant.String(), Principal: uuid.NewString()}, false},
		"nobody":      {pgtest.Scoped(t, b.db), pg.Scope{}, false},
		"a node":      {pgtest.As(t, b.db, "gpuaas_node"), pg.Scope{}, false},
	} {
		ctx := pg.WithScope(t.Context(), c.ctx)
		err := pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
			_, err := b.Transfer(ctx, tx, b.gift(5, who))
			return err
		})
		if (err == nil) != c.may {
			t.Errorf("%s: %v", who, err)
		}
	}
	b.holds(t, 10)
}

// An adjustment has an actor: without an audit row of the same transaction it is rejected.
func TestACorrectionIsAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	work := pgtest.As(t, b.db, "gpuaas_work")
	for _, audited := range []bool{false, true} {
		x, batch := b.gift(5, "wrong price"), &pgx.Batch{}
		x.Kind, x.From = ledger.Adjustment, ledger.Adjustments
		ledger.QueueTransfer(batch, x, nil)
		if audited {
			audit.Queue(batch, audit.Entry{Tenant: b.tenant, By: audit.By{Actor: "user:u"}, Action: "balance.adjust", Target: "t"})
		}
		if err := pg.Commit(t.Context(), work, batch, func() {}); (err == nil) != audited {
			t.Errorf("audited %t: %v", audited, err)
		}
	}
	b.holds(t, 5)
}

// The same once more behind the code.
func TestDatabaseRejectsEntriesThatDoNotSumToZero(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct{ kind, entries, want string }{
		"another amount":   {"topup", `SELECT id, a, m, 'EUR', now() FROM t, (VALUES ($1, 5), ((SELECT id FROM ledger_accounts WHERE name = 'clearing'), -5)) v (a, m)`, "and to its amount"},
		"half":             {"topup", `SELECT id, $1, 5, 'EUR', now() FROM t`, "must sum to zero"},
		"nothing":          {"topup", `SELECT id, $1, 5, 'EUR', now() FROM t WHERE false`, "must sum to zero"},
		"two currencies":   {"topup", `SELECT id, $1, a, c, now() FROM t, (VALUES (5, 'EUR'), (-5, 'USD')) v (a, c)`, "must sum to zero"},
		"two, each zero":   {"topup", `SELECT id, $1, a, c, now() FROM t, (VALUES (5, 'EUR'), (-5, 'EUR'), (5, 'USD'), (-5, 'USD')) v (a, c)`, "must sum to zero"},
		"another time":     {"topup", `SELECT id, $1, a, 'EUR', now() + interval '1 second' FROM t, (VALUES (5), (-5)) v (a)`, "must sum to zero"},
		"an unknown kind":  {"gift", `SELECT id, $1, a, 'EUR', now() FROM t, (VALUES (5), (-5)) v (a)`, "ledger_transfers_have_a_kind"},
		"what is in order": {"topup", `SELECT id, $1, a, 'EUR', now() FROM t, (VALUES (5), (-5)) v (a)`, ""},
	} {
		_, err := b.db.Exec(t.Context(), `WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES (gen_random_uuid(), $2, $3, $4, 0) RETURNING id)
			INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency, at) `+c.entries, b.balance, c.kind, name, b.tenant)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.holds(t, 0)
}

// An id of zeros would be read as an allocation that does not exist.
func TestAnEntryNamesTheAllocationThatItIsAbout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	about := b.gift(3, "about")
	about.Allocation = ids.New[ids.Allocation]()
	b.credit(t, 5, "of nothing")
	b.within(t, func(tx pgx.Tx) error { _, err := b.Transfer(t.Context(), tx, about); return err })
	list, err := b.Entries(t.Context(), b.tenant, ledger.Filter{})
	if err != nil || len(list) != 2 || list[0].Allocation != nil || list[1].Allocation == nil || *list[1].Allocation != about.Allocation {
		t.Errorf("%+v, %v", list, err)
	}
}
