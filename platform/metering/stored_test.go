package metering

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// store changes the stored bytes of a project at a second, and commits.
func (b *bundle) store(ctx context.Context, c Stored, at int64) error {
	if err := b.clock.Set(ctx, at); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	QueueStored(batch, c)
	return b.db.SendBatch(ctx, batch).Close()
}

func (b *bundle) storagePrice(ctx context.Context, p StoragePrice, at int64) error {
	if err := b.clock.Set(ctx, at); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error { return price(ctx, tx, p) })
}

func price(ctx context.Context, tx pgx.Tx, p StoragePrice) error {
	batch := &pgx.Batch{}
	QueueStoragePrice(batch, p)
	return tx.SendBatch(ctx, batch).Close()
}

// chargedStorage returns the amount that the ledger has charged for the stored bytes of a project.
func (b *bundle) chargedStorage(ctx context.Context, t failer, p ids.Project) int64 {
	var sum int64
	must(t, b.db.QueryRow(ctx, `SELECT coalesce(-sum(amount_minor), 0)::bigint FROM ledger_transfers WHERE kind = 'storage' AND reference LIKE '% ' || $1::text`, p.String()).Scan(&sum))
	return sum
}

var unit = new(big.Int).Mul(big.NewInt(1<<30), big.NewInt(720*3600))

// storedModel computes what a project stores and owes, in integers of any size.
type storedModel struct {
	Stored
	bytes int64
	since int64
	owed  *big.Int // price × bytes × seconds
	total *big.Int // bytes × seconds
}

func (m *storedModel) pass(to int64, p StoragePrice) {
	seconds := big.NewInt(to - m.since)
	m.total.Add(m.total, new(big.Int).Mul(big.NewInt(m.bytes), seconds))
	rate := new(big.Int).Mul(big.NewInt(max(m.bytes-p.FreeBytes, 0)), big.NewInt(int64(p.PriceMinor)))
	m.owed.Add(m.owed, rate.Mul(rate, seconds))
	m.since = to
}

func (m *storedModel) due() int64 { return new(big.Int).Div(m.owed, unit).Int64() }

// Random changes of bytes and prices, with ticks at random times and a clock that jumps, cost what the model computes: to the
// minor unit, however time is cut.
func TestINV30RandomStoredBytesCostWhatTheModelComputes(t *testing.T) {
	t.Parallel()
	histories := 100
	if text := os.Getenv("GPUAAS_HISTORIES"); text != "" {
		histories, _ = strconv.Atoi(text)
	}
	const together = 100 // a tick reads all of one database
	for first := 0; first < histories; first += together {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx := t.Context()
			now, price, last := t0, StoragePrice{}, int64(0)
			for n := first; n < min(first+together, histories); n++ {
				now, last, price = b.storedHistory(ctx, t, n, now, last, price)
			}
			ticks, found, err := b.Compare(ctx, at(t0), at(now+1))
			must(t, err)
			if len(found) > 0 || ticks == 0 {
				t.Errorf("of %d ticks %d differ: %+v", ticks, len(found), found[:min(len(found), 3)])
			}
		})
	}
}

// storedHistory runs one history of two projects of a tenant, and compares its end.
func (b *bundle) storedHistory(ctx context.Context, t *testing.T, n int, now, last int64, price StoragePrice) (int64, int64, StoragePrice) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(n), 1))
	draw := random.Int64N
	tenant := ids.New[ids.Tenant]()
	of := []*storedModel{}
	for range 2 {
		m := &storedModel{Stored: Stored{Tenant: tenant, Project: ids.New[ids.Project]()}, owed: new(big.Int), total: new(big.Int)}
		must(t, b.store(ctx, m.Stored, now))
		m.since = max(now, last)
		of = append(of, m)
	}
	moment := func() int64 { return max(now, last) }
	for range 8 {
		now += []int64{0, 1, draw(90), draw(90_000), -draw(50)}[draw(5)]
		m := of[draw(2)]
		switch draw(4) {
		case 0, 1:
			change := draw(1<<30) * draw(1<<12)
			if draw(2) == 0 {
				change = -draw(m.bytes + 1)
			}
			m.Bytes = change
			must(t, b.store(ctx, m.Stored, now))
			if change != 0 { // otherwise nothing changes, not even the time of the last change
				m.pass(max(moment(), m.since), price)
				m.bytes += change
			}
		case 2:
			to := StoragePrice{Class: "s", PriceMinor: money.Minor(draw(3) * draw(1_000_000)), FreeBytes: draw(2) * draw(1<<31), Currency: "EUR"}
			must(t, b.storagePrice(ctx, to, now))
			for _, m := range of {
				if to != price {
					m.pass(max(moment(), m.since), price)
				}
			}
			price = to
		case 3:
			_, _, err := b.tick(ctx, now)
			must(t, err)
			last = max(last, now)
		}
	}
	now = moment() + 1 + draw(1000)
	for _, m := range of {
		now = max(now, m.since+1)
	}
	_, _, err := b.tick(ctx, now)
	must(t, err)
	last = now
	for _, m := range of {
		m.pass(now, price)
		if got := b.chargedStorage(ctx, t, m.Project); got != m.due() {
			t.Errorf("project %s was charged %d, want %d", m.Project, got, m.due())
		}
		uses, err := b.StoredUses(ctx, Query{Tenant: tenant, Project: m.Project, From: at(t0), To: at(now)})
		must(t, err)
		switch {
		case m.total.Sign() == 0 && len(uses) == 0:
		case len(uses) == 0:
			t.Errorf("no use of %s, want %s byte-seconds", m.Project, m.total)
		default:
			cost, total := int64(0), new(big.Int)
			for _, u := range uses {
				part, _ := new(big.Int).SetString(u.ByteSeconds, 10)
				total.Add(total, part)
				cost += int64(u.CostMinor)
			}
			if total.Cmp(m.total) != 0 || cost != m.due() {
				t.Errorf("%s used %s byte-seconds for %d, want %s for %d", m.Project, total, cost, m.total, m.due())
			}
		}
		// Not a part of the next history.
		m.Bytes = -m.bytes
		must(t, b.store(ctx, m.Stored, now))
	}
	return now, last, price
}

// Bytes that were stored at one price cost it until the price changes, and the fraction goes on.
func TestAPriceOfStorageAppliesFromItsTimeOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	must(t, b.storagePrice(ctx, StoragePrice{Class: "standard", PriceMinor: 3, Currency: "EUR"}, t0))
	c := Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Bytes: 100 << 30}
	must(t, b.store(ctx, c, t0))
	const month = 720 * 3600
	must(t, b.storagePrice(ctx, StoragePrice{Class: "standard", PriceMinor: 5, Currency: "EUR"}, t0+month/2))
	_, n, err := b.tick(ctx, t0+month)
	must(t, err)
	if got := b.chargedStorage(ctx, t, c.Project); got != 400 || n == 0 {
		t.Errorf("charged %d in %d transfers, want 150 + 250", got, n)
	}
	burn, err := b.Burn(ctx, b.db, c.Tenant)
	must(t, err)
	if burn != 0 { // 500 ÷ 720, rounded down
		t.Errorf("a burn of %d", burn)
	}
	spent, err := b.SpentSince(ctx, b.db, c.Tenant, c.Project, at(t0+month/2))
	must(t, err)
	if spent != 250 {
		t.Errorf("spent %d in the second half, want 250", spent)
	}
	all, err := b.ledger.Entries(ctx, c.Tenant, ledger.Filter{Kind: ledger.Storage, Subset: InProject(c.Project)})
	must(t, err)
	sum := money.Minor(0)
	for _, e := range all {
		sum -= e.AmountMinor
	}
	if sum != 400 {
		t.Errorf("the entries of the project are %d", sum)
	}
}

// Free bytes cost nothing, and need no balance. More need one.
func TestStoredBytesNeedABalanceAboveTheFreeOnes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	must(t, b.storagePrice(ctx, StoragePrice{Class: "standard", PriceMinor: 3, FreeBytes: 10, Currency: "EUR"}, t0))
	c := Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Wanted: 10}
	must(t, b.store(ctx, c, t0))
	c.Wanted = 11
	if err := b.store(ctx, c, t0); errs.CodeOf(err) != errs.InsufficientBalance {
		t.Errorf("more than the free bytes without a balance: %v", err)
	}
	must(t, pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		if _, err := b.ledger.EnsureAccounts(ctx, tx, c.Tenant, "EUR"); err != nil {
			return err
		}
		return b.ledger.TestCredit(ctx, tx, c.Tenant, 1, fmt.Sprint(c.Tenant))
	}))
	c.Bytes = 11
	must(t, b.store(ctx, c, t0))
	paying, err := b.PayingForStorage(ctx, b.db, []ids.Tenant{c.Tenant})
	must(t, err)
	if paying[c.Tenant] != 11 {
		t.Errorf("paying %v", paying)
	}
	c.Bytes, c.Wanted = -11, 0
	must(t, b.store(ctx, c, t0+1))
}

// A record that has ended does not change.
func TestAnEndedRecordOfStoredBytesDoesNotChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	must(t, b.store(ctx, Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Bytes: 1}, t0))
	must(t, b.storagePrice(ctx, StoragePrice{Class: "standard", Currency: "EUR"}, t0+5))
	for _, change := range []string{`UPDATE usage_storage SET bytes = 2 WHERE end_s IS NOT NULL`, `DELETE FROM usage_storage`} {
		if _, err := b.db.Exec(ctx, change); err == nil {
			t.Errorf("%s succeeded", change)
		}
	}
}

// A request of a tenant meters only the projects of its tenant.
func TestStoredBytesOfAnotherTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	c := Stored{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Bytes: 5}
	must(t, b.store(ctx, c, t0))
	api := pgtest.Scoped(t, b.db)
	other := ids.New[ids.Tenant]()
	as := func(scope ids.Tenant, c Stored) error {
		batch := &pgx.Batch{}
		QueueStored(batch, c)
		ctx := pg.WithScope(ctx, pg.Scope{Tenant: scope.String()})
		return pgx.BeginFunc(ctx, api, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	}
	must(t, as(c.Tenant, c))
	if err := as(other, c); err == nil {
		t.Error("another tenant changed the stored bytes")
	}
	c.Tenant = other
	if err := as(other, c); err == nil {
		t.Error("a project was metered for another tenant")
	}
	must(t, b.store(ctx, Stored{Tenant: other, Project: ids.New[ids.Project](), Bytes: 1}, t0))
}
