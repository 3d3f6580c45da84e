package ledger_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// charge is a pass of use as metering writes it: $1 the reference, $2 when it is
// booked, $3 the account, $4 allocations and $5 what each pays.
var charge = ledger.UsageStatement(ledger.Charges{
	Query: `SELECT $3::uuid AS account_id, allocation AS allocation_id, 'EUR' AS currency, amount AS amount_minor
		FROM unnest($4::uuid[], $5::bigint[]) AS used (allocation, amount)`,
	Reference: `$1::text`, At: `$2::timestamptz`,
})

func (b *bundle) use(t testing.TB, reference string, at time.Time, paid map[ids.Allocation]money.Minor) error {
	t.Helper()
	var allocations []uuid.UUID
	var amounts []int64
	for a, m := range paid {
		allocations, amounts = append(allocations, a.UUID), append(amounts, int64(m))
	}
	var n int
	err := b.db.QueryRow(t.Context(), charge, reference, at, b.balance, allocations, amounts).Scan(&n)
	if err == nil && n != 1 {
		t.Errorf("%d transfers", n)
	}
	return err
}

func TestUsageIsBookedWhenItWasUsedOncePerPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit(t, 1_000, "start")
	one, two := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	at := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	paid := map[ids.Allocation]money.Minor{one: 30, two: 12, ids.New[ids.Allocation](): 0}
	for i, want := range []bool{true, false} {
		if err := b.use(t, "tick 1", at, paid); (err == nil) != want {
			t.Errorf("pass %d: %v", i, err)
		}
	}
	b.holds(t, 958)
	list, err := b.Entries(t.Context(), b.tenant, ledger.Filter{Kind: ledger.Usage, Allocation: two})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	e := list[0]
	if !e.At.Equal(at) || e.AmountMinor != -12 || *e.Allocation != two || e.Reference != "tick 1 "+b.balance.String() || e.Currency != "EUR" || e.Transfer == uuid.Nil {
		t.Errorf("got %+v", e)
	}
	if list, err = b.Entries(t.Context(), b.tenant, ledger.Filter{Kind: ledger.Usage}); err != nil || len(list) != 2 {
		t.Errorf("what cost nothing is booked: %+v, %v", list, err)
	}
}

func TestUsageOfAMissingAccountIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dollars := ids.New[ids.Tenant]()
	b.within(t, func(tx pgx.Tx) error {
		_, err := b.EnsureAccounts(t.Context(), tx, dollars, "USD")
		return err
	})
	for name, account := range map[string]string{
		"unknown": `gen_random_uuid()`, "the platform's": `(SELECT id FROM ledger_accounts WHERE name = 'clearing' AND currency = 'EUR')`,
		"of another currency": `(SELECT id FROM ledger_accounts WHERE org_id = '` + dollars.String() + `')`,
	} {
		pass := ledger.UsageStatement(ledger.Charges{
			With:  `used AS (SELECT ` + account + ` AS account_id)`,
			Query: `SELECT account_id, gen_random_uuid() AS allocation_id, 'EUR' AS currency, 5 AS amount_minor FROM used`, Reference: `'x'`, At: `now()`,
		})
		if _, err := b.db.Exec(t.Context(), pass); err == nil {
			t.Errorf("an account that is %s was charged", name)
		}
	}
}

// months are a tenant's entries of four months, some of them late, and a seal
// among them.
func months(t *testing.T) (b *bundle, all []ledger.Entry, starts []time.Time) {
	t.Helper()
	b = setup(t)
	now := time.Now().UTC()
	for i := range 4 {
		starts = append(starts, time.Date(now.Year(), now.Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC))
	}
	allocations := []ids.Allocation{ids.New[ids.Allocation](), ids.New[ids.Allocation]()}
	b.credit(t, 10_000, "start")
	for i, at := range []time.Time{starts[0], starts[1].Add(-time.Second), starts[1], starts[2], starts[1].Add(time.Hour), starts[3], starts[2].Add(time.Minute)} {
		paid := map[ids.Allocation]money.Minor{allocations[0]: money.Minor(i + 1), allocations[1]: 100}
		if err := b.use(t, fmt.Sprint(i), at, paid); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			b.credit(t, 77, "more")
			b.seal(t)
		}
	}
	all, err := b.Entries(t.Context(), b.tenant, ledger.Filter{})
	if err != nil || len(all) != 16 || !slices.IsSortedFunc(all, func(x, y ledger.Entry) int { return int(x.ID - y.ID) }) {
		t.Fatalf("%+v, %v", all, err)
	}
	return b, all, starts
}

func TestEntriesAreThoseOfTheFilter(t *testing.T) {
	t.Parallel()
	b, all, starts := months(t)
	rapid.Check(t, func(r *rapid.T) {
		f := ledger.Filter{
			From:  rapid.SampledFrom(append(slices.Clone(starts), time.Time{})).Draw(r, "from"),
			To:    rapid.SampledFrom(append(slices.Clone(starts), time.Time{})).Draw(r, "to"),
			Kind:  rapid.SampledFrom([]ledger.Kind{"", ledger.Usage, ledger.TestCredit, ledger.TopUp}).Draw(r, "kind"),
			After: rapid.SampledFrom([]int64{0, all[3].ID, all[15].ID}).Draw(r, "after"),
			Limit: rapid.IntRange(0, 20).Draw(r, "limit"),
		}
		if of := rapid.SampledFrom(all).Draw(r, "of"); of.Allocation != nil && rapid.Bool().Draw(r, "allocation") {
			f.Allocation = *of.Allocation
		}
		want := []ledger.Entry{}
		for _, e := range all {
			if (f.From.IsZero() || !e.At.Before(f.From)) && (f.To.IsZero() || e.At.Before(f.To)) && (f.Kind == "" || e.Kind == f.Kind) &&
				(f.Allocation == (ids.Allocation{}) || e.Allocation != nil && *e.Allocation == f.Allocation) && e.ID > f.After && (f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, e)
			}
		}
		got, err := b.Entries(t.Context(), b.tenant, f)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			r.Fatalf("%+v: %v\n%s", f, err, diff)
		}
		each := []ledger.Entry{}
		if err := b.EachEntry(t.Context(), b.tenant, f, func(e ledger.Entry) error { each = append(each, e); return nil }); err != nil || !cmp.Equal(each, got) {
			r.Fatalf("%+v: %v\n%s", f, err, cmp.Diff(got, each))
		}
	})
}

// The balance of any moment, and the sums of any stretch, are those of the entries.
func TestBalancesAndSumsFollowFromEntries(t *testing.T) {
	t.Parallel()
	b, all, starts := months(t)
	moments := slices.Concat(starts, []time.Time{starts[0].Add(time.Nanosecond * 1000), all[4].At, time.Now(), starts[3].AddDate(1, 0, 0)})
	for _, to := range moments {
		var want money.Minor
		for _, e := range all {
			if e.At.Before(to) {
				want += e.AmountMinor
			}
		}
		if got, err := b.BalanceAt(t.Context(), b.db, b.tenant, to); err != nil || got != want {
			t.Errorf("at %s: %d, want %d: %v", to, got, want, err)
		}
		for _, from := range moments {
			sums := map[ledger.Kind]money.Minor{}
			for _, e := range all {
				if !e.At.Before(from) && e.At.Before(to) {
					sums[e.Kind] += e.AmountMinor
				}
			}
			if got, err := b.SumByKind(t.Context(), b.db, b.tenant, from, to); err != nil || !cmp.Equal(got, sums) {
				t.Errorf("from %s to %s: %v, want %v: %v", from, to, got, sums, err)
			}
		}
	}
}

// A list of any length needs the memory of one page, and ends when the reader stops.
func TestEachEntryGoesOnOverPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paid := map[ids.Allocation]money.Minor{}
	for range 4_500 {
		paid[ids.New[ids.Allocation]()] = 1
	}
	if err := b.use(t, "many", time.Now(), paid); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{0: 4_500, 1: 1, 2_000: 2_000, 2_001: 2_001, 4_000: 4_000, 9_000: 4_500} {
		seen := map[int64]bool{}
		err := b.EachEntry(t.Context(), b.tenant, ledger.Filter{Limit: limit}, func(e ledger.Entry) error { seen[e.ID] = true; return nil })
		if err != nil || len(seen) != want {
			t.Errorf("limit %d: %d, %v", limit, len(seen), err)
		}
	}
	enough, n := errors.New("enough"), 0
	err := b.EachEntry(t.Context(), b.tenant, ledger.Filter{}, func(ledger.Entry) error {
		if n++; n == 2_500 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 2_500 {
		t.Errorf("went on to %d: %v", n, err)
	}
}

// INV-61: the same statements return a tenant's own entries and no others.
func TestEntriesAreTheTenantsOwn(t *testing.T) {
	t.Parallel()
	b, all, starts := months(t)
	api := &ledger.Service{DB: pgtest.Scoped(t, b.db)}
	for scope, want := range map[pg.Scope]int{{Tenant: b.tenant.String()}: len(all), {Tenant: uuid.NewString()}: 0, {}: 0, pg.Platform: len(all)} {
		ctx := pg.WithScope(t.Context(), scope)
		list, err := api.Entries(ctx, b.tenant, ledger.Filter{})
		if err != nil || len(list) != want {
			t.Errorf("%+v reads %d entries, %v", scope, len(list), err)
		}
		sums, err := api.SumByKind(ctx, api.DB, b.tenant, starts[0], starts[3])
		if err != nil || (len(sums) == 2) != (want > 0) {
			t.Errorf("%+v sums %v, %v", scope, sums, err)
		}
		balance, err := api.BalanceAt(ctx, api.DB, b.tenant, starts[3].AddDate(1, 0, 0))
		if (err == nil) != (want > 0) || want > 0 && balance != 10_077-28-700 {
			t.Errorf("%+v: %d, %v", scope, balance, err)
		}
	}
}

// INV-37: near the limit of 63 bits a sum is right or rejected. It never wraps.
func TestINV37BalancesDoNotWrap(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	near := rapid.OneOf(rapid.Int64Range(1<<62-3, 1<<62+3), rapid.Int64Range(-1<<62-3, -1<<62+3), rapid.Int64Range(-3, 3),
		rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(math.MinInt64+1, math.MinInt64+3))
	rapid.Check(t, func(r *rapid.T) {
		tx, err := db.Begin(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		s, tenant, model := &ledger.Service{DB: tx}, ids.New[ids.Tenant](), new(big.Int)
		account, err := s.EnsureAccounts(t.Context(), tx, tenant, "EUR")
		if err != nil {
			r.Fatal(err)
		}
		for i, amount := range rapid.SliceOfN(near, 1, 6).Draw(r, "amounts") {
			// A direct insert, because the code rejects this amount.
			_, err := tx.Exec(t.Context(), `WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES (gen_random_uuid(), 'topup', $3, $4, $2) RETURNING id)
				INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) SELECT t.id, $1, $2, 'EUR' FROM t`, account, amount, fmt.Sprint(i), tenant)
			if err != nil {
				r.Fatal(err)
			}
			model.Add(model, big.NewInt(amount))
			if rapid.Bool().Draw(r, "seal") {
				if err := s.Seal(t.Context()); err != nil {
					r.Fatal(err)
				}
			}
		}
		long := time.Now().AddDate(1, 0, 0)
		for name, read := range map[string]func(pg.Queryer) (money.Minor, error){
			"balance": func(q pg.Queryer) (m money.Minor, err error) {
				m, _, err = s.Balance(t.Context(), q, tenant)
				return m, err
			},
			"at": func(q pg.Queryer) (money.Minor, error) { return s.BalanceAt(t.Context(), q, tenant, long) },
			"balances": func(q pg.Queryer) (money.Minor, error) {
				all, err := s.Balances(t.Context(), q, []ids.Tenant{tenant})
				return all[tenant].Minor, err
			},
			"sums": func(q pg.Queryer) (money.Minor, error) {
				sums, err := s.SumByKind(t.Context(), q, tenant, time.Time{}, long)
				return sums[ledger.TopUp], err
			},
		} {
			sub, err := tx.Begin(t.Context()) // a statement that fails ends its transaction
			if err != nil {
				r.Fatal(err)
			}
			got, err := read(sub)
			if model.IsInt64() && (err != nil || int64(got) != model.Int64()) || !model.IsInt64() && err == nil {
				r.Errorf("%s of %s is %d, %v", name, model, got, err)
			}
			if err := sub.Rollback(t.Context()); err != nil {
				r.Fatal(err)
			}
		}
	})
}
