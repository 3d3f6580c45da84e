package metering

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

type bundle struct {
	*Service
	db     *pgxpool.Pool
	ledger *ledger.Service
}

func setup(t testing.TB) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	return &bundle{Service: &Service{DB: db}, db: db, ledger: &ledger.Service{DB: db}}
}

func h100(tenant ids.Tenant) Interval {
	return Interval{
		Allocation: ids.New[ids.Allocation](), Tenant: tenant, Project: ids.New[ids.Project](),
		SKU: "h100", GPUs: 3, PriceMinor: 199, Currency: "EUR",
	}
}

type failer interface{ Fatalf(string, ...any) }

func must(t failer, err error) {
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func open(ctx context.Context, q pg.Queryer, i Interval, at int64) error {
	b := &pgx.Batch{}
	queueOpen(b, i, &at)
	return q.SendBatch(ctx, b).Close()
}

func closeAt(ctx context.Context, q pg.Queryer, a ids.Allocation, at int64) error {
	b := &pgx.Batch{}
	queueClose(b, a, &at)
	return q.SendBatch(ctx, b).Close()
}

// tick runs a pass at a time and commits it.
func (b *bundle) tick(ctx context.Context, at int64) (tick Tick, err error) {
	err = pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		tick, err = b.accrue(ctx, tx, &at)
		return err
	})
	return tick, err
}

// charged is what the ledger holds against the allocation.
func (b *bundle) charged(ctx context.Context, t failer, a ids.Allocation) int64 {
	var sum int64
	must(t, b.db.QueryRow(ctx, "SELECT coalesce(-sum(amount_minor), 0)::bigint FROM ledger_entries WHERE allocation_id = $1", a.UUID).Scan(&sum))
	return sum
}

// owed is the model: exact, in integers of any size.
func owed(i Interval, seconds int64) int64 {
	n := new(big.Int).Mul(big.NewInt(int64(i.PriceMinor)), big.NewInt(int64(i.GPUs)))
	n.Mul(n, big.NewInt(seconds))
	return n.Div(n, big.NewInt(3600)).Int64()
}

const t0 = int64(1_900_000_000)

func TestPassesSumToWhatIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, open(ctx, b.db, i, t0))
	must(t, open(ctx, b.db, i, t0+5)) // opening twice opens once
	for _, at := range []int64{t0 + 1, t0 + 7, t0 + 59, t0 + 3601} {
		tick, err := b.tick(ctx, at)
		must(t, err)
		if tick.To.Unix() != at {
			t.Errorf("tick %+v, want it up to %d", tick, at)
		}
		if got := b.charged(ctx, t, i.Allocation); got != owed(i, at-t0) {
			t.Errorf("after %d s charged %d, want %d", at-t0, got, owed(i, at-t0))
		}
	}
	must(t, closeAt(ctx, b.db, i.Allocation, t0+4000))
	must(t, closeAt(ctx, b.db, i.Allocation, t0+4001)) // closing twice closes once
	tick, err := b.tick(ctx, t0+9000)
	must(t, err)
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 4000) || tick.Transfers != 1 {
		t.Errorf("in the end charged %d in %d transfers, want %d", got, tick.Transfers, owed(i, 4000))
	}
	if tick, err = b.tick(ctx, t0+9500); err != nil || tick.Transfers != 0 {
		t.Errorf("charged a closed interval again: %+v, %v", tick, err)
	}
	if r, err := b.ledger.Verify(ctx, ids.Tenant{}); err != nil || !r.OK() {
		t.Errorf("the ledger says %+v, %v", r, err)
	}
	balance, _, err := b.ledger.Balance(ctx, b.db, i.Tenant)
	if err != nil || int64(balance) != -owed(i, 4000) {
		t.Errorf("balance %d, %v", balance, err)
	}
}

func TestOneTransferPerTenantAndTick(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	rich, poor := ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	free := h100(poor)
	free.PriceMinor = 0
	for _, i := range []Interval{h100(rich), h100(rich), h100(poor), free} {
		must(t, open(ctx, b.db, i, t0))
	}
	tick, err := b.tick(ctx, t0+3600)
	must(t, err)
	var transfers, entries int
	must(t, b.db.QueryRow(ctx, "SELECT (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM ledger_entries)").Scan(&transfers, &entries))
	if tick.Transfers != 2 || transfers != 2 || entries != 3+2 {
		t.Errorf("%d transfers, %d entries: %+v", transfers, entries, tick)
	}
}

func TestNothingToDoIsNoTick(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if tick, err := b.tick(ctx, t0); err != nil || tick != (Tick{}) {
		t.Errorf("nothing metered: %+v, %v", tick, err)
	}
	i := h100(ids.New[ids.Tenant]())
	must(t, open(ctx, b.db, i, t0))
	for _, c := range []struct {
		rule string
		at   int64
		tick bool
	}{{"same second", t0, false}, {"later", t0 + 10, true}, {"again", t0 + 10, false}, {"clock went back", t0 + 9, false}} {
		if tick, err := b.tick(ctx, c.at); err != nil || (tick != Tick{}) != c.tick {
			t.Errorf("%s: %+v, %v", c.rule, tick, err)
		}
	}
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 10) {
		t.Errorf("charged %d, want %d", got, owed(i, 10))
	}
}

func TestProductionUsesTheDatabaseClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	var before, after int64
	must(t, b.db.QueryRow(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()))").Scan(&before))
	batch := &pgx.Batch{}
	QueueOpen(batch, i)
	QueueClose(batch, i.Allocation)
	must(t, b.db.SendBatch(ctx, batch).Close())
	must(t, b.db.QueryRow(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()))").Scan(&after))
	var start, end int64
	must(t, b.db.QueryRow(ctx, "SELECT start_s, end_s FROM usage_records").Scan(&start, &end))
	if start < before || end > after || end < start {
		t.Errorf("metered [%d, %d) between %d and %d", start, end, before, after)
	}
}

func TestDuplicatesOfATickAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, open(ctx, b.db, i, t0))
	first, err := b.db.Begin(ctx)
	must(t, err)
	at := t0 + 100
	_, err = b.accrue(ctx, first, &at)
	must(t, err)
	// Beside an open pass there is nothing to do; behind its lock the unique keys say no.
	if tick, err := b.tick(ctx, t0+101); err != nil || tick != (Tick{}) {
		t.Errorf("two passes at once: %+v, %v", tick, err)
	}
	must(t, first.Commit(ctx))
	if _, err := b.db.Exec(ctx, "INSERT INTO usage_ticks (from_s, to_s) VALUES ($1, $2)", t0, t0+101); err == nil {
		t.Error("two ticks from one second")
	}
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 100) {
		t.Errorf("charged %d, want %d", got, owed(i, 100))
	}
}

func TestINV37NothingWraps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	most := h100(ids.New[ids.Tenant]())
	most.GPUs, most.PriceMinor = 100_000, 1_000_000_000
	must(t, open(ctx, b.db, most, 0))
	seconds := int64(10 * 365 * 24 * 3600)
	must(t, closeAt(ctx, b.db, most.Allocation, seconds))
	_, err := b.tick(ctx, seconds+1)
	must(t, err)
	if got := b.charged(ctx, t, most.Allocation); got != owed(most, seconds) {
		t.Errorf("ten years came to %d, want %d", got, owed(most, seconds))
	}
	for name, change := range map[string]func(*Interval){
		"price": func(i *Interval) { i.PriceMinor++ }, "gpus": func(i *Interval) { i.GPUs++ },
		"negative price": func(i *Interval) { i.PriceMinor = -1 }, "no gpus": func(i *Interval) { i.GPUs = 0 },
	} {
		i := most
		i.Allocation = ids.New[ids.Allocation]()
		change(&i)
		if err := open(ctx, b.db, i, 0); err == nil {
			t.Errorf("%s: opened %+v", name, i)
		}
	}
}

func TestUsageIsCutByTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	tenant := ids.New[ids.Tenant]()
	one, two := h100(tenant), h100(tenant)
	must(t, open(ctx, b.db, one, t0))
	must(t, closeAt(ctx, b.db, one.Allocation, t0+100))
	must(t, open(ctx, b.db, one, t0+200)) // its use was interrupted
	must(t, closeAt(ctx, b.db, one.Allocation, t0+300))
	must(t, open(ctx, b.db, two, t0+50))
	must(t, open(ctx, b.db, h100(ids.New[ids.Tenant]()), t0))

	// two is still open, and the database's clock decides how far: the test's
	// times lie ahead of it.
	at := func(s int64) time.Time { return time.Unix(t0+s, 0) }
	all, err := b.Usage(ctx, tenant, ids.Project{}, at(-50), at(1000), ids.Allocation{}, 10)
	must(t, err)
	if len(all) != 2 || all[0].Allocation != one.Allocation || all[0].Seconds != 200 ||
		all[0].CostMinor != money.Minor(2*owed(one, 100)) || all[0].EndedAt == nil || all[0].EndedAt.Unix() != t0+300 {
		t.Errorf("usage %+v", all)
	}
	if len(all) == 2 && (all[1].EndedAt != nil || all[1].StartedAt.Unix() != t0+50) {
		t.Errorf("open usage %+v", all[1])
	}
	page, err := b.Usage(ctx, tenant, ids.Project{}, at(0), at(1000), all[0].Allocation, 10)
	must(t, err)
	if len(page) != 1 || page[0].Allocation != two.Allocation {
		t.Errorf("next page %+v", page)
	}
	ours, err := b.Usage(ctx, tenant, two.Project, at(-50), at(1000), ids.Allocation{}, 10)
	must(t, err)
	if one.Project == two.Project || len(ours) != 1 || ours[0].Allocation != two.Allocation {
		t.Errorf("of one project %+v", ours)
	}
	cut, err := b.Usage(ctx, tenant, ids.Project{}, at(90), at(210), ids.Allocation{}, 1)
	must(t, err)
	if len(cut) != 1 || cut[0].Seconds != 20 ||
		cut[0].CostMinor != money.Minor(owed(one, 100)-owed(one, 90)+owed(one, 10)) {
		t.Errorf("window %+v", cut)
	}
	if none, err := b.Usage(ctx, tenant, ids.Project{}, at(-100), at(0), ids.Allocation{}, 10); err != nil || len(none) != 0 {
		t.Errorf("before the start %+v, %v", none, err)
	}

	costs, err := b.CostOf(ctx, []ids.Allocation{one.Allocation, {UUID: uuid.New()}})
	if err != nil || len(costs) != 1 || costs[one.Allocation] != money.Minor(2*owed(one, 100)) {
		t.Errorf("costs %v, %v", costs, err)
	}
	if burn, err := b.Burn(ctx, b.db, tenant); err != nil || burn != 3*199 {
		t.Errorf("burn %d, %v", burn, err)
	}
}
