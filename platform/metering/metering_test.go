package metering

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering/meteringtest"
)

type bundle struct {
	*Service
	db     *pgxpool.Pool
	clock  meteringtest.Clock
	ledger *ledger.Service
}

func setup(t testing.TB) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	return &bundle{Service: &Service{DB: db}, db: db, clock: meteringtest.New(t, db, t0), ledger: &ledger.Service{DB: db}}
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

// open begins an interval at a second, and commits.
func (b *bundle) open(ctx context.Context, i Interval, at int64) error {
	if err := b.clock.Set(ctx, at); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	QueueOpen(batch, i, ObservedReady, nil)
	return b.db.SendBatch(ctx, batch).Close()
}

func (b *bundle) close(ctx context.Context, a ids.Allocation, at int64) error {
	if err := b.clock.Set(ctx, at); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	QueueClose(batch, a, ReleaseRequested, nil)
	return b.db.SendBatch(ctx, batch).Close()
}

// tick cuts at a second and charges all that is not charged.
func (b *bundle) tick(ctx context.Context, at int64) (ticks []Tick, transfers int, err error) {
	if err := b.clock.Set(ctx, at); err != nil {
		return nil, 0, err
	}
	if err := b.Cut(ctx); err != nil {
		return nil, 0, err
	}
	if ticks, err = b.Uncharged(ctx, b.db); err != nil {
		return nil, 0, err
	}
	for _, t := range ticks {
		err := pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
			n, _, err := b.Charge(ctx, tx, t)
			transfers += n
			return err
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return ticks, transfers, nil
}

// charged returns the amount that the ledger has charged for the allocation.
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

func TestINV30PassesSumToWhatIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	must(t, b.open(ctx, i, t0+5)) // opening twice opens once
	for _, at := range []int64{t0 + 1, t0 + 7, t0 + 59, t0 + 3601} {
		ticks, _, err := b.tick(ctx, at)
		must(t, err)
		if len(ticks) != 1 || ticks[0].To.Unix() != at {
			t.Errorf("ticks %+v, want one up to %d", ticks, at)
		}
		if got := b.charged(ctx, t, i.Allocation); got != owed(i, at-t0) {
			t.Errorf("after %d s charged %d, want %d", at-t0, got, owed(i, at-t0))
		}
	}
	must(t, b.close(ctx, i.Allocation, t0+4000))
	must(t, b.close(ctx, i.Allocation, t0+4001)) // closing twice closes once
	_, transfers, err := b.tick(ctx, t0+9000)
	must(t, err)
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 4000) || transfers != 1 {
		t.Errorf("in the end charged %d in %d transfers, want %d", got, transfers, owed(i, 4000))
	}
	if _, transfers, err = b.tick(ctx, t0+9500); err != nil || transfers != 0 {
		t.Errorf("charged a closed interval again: %d, %v", transfers, err)
	}
	b.verified(ctx, t)
	balance, _, err := b.ledger.Balance(ctx, b.db, i.Tenant)
	if err != nil || int64(balance) != -owed(i, 4000) {
		t.Errorf("balance %d, %v", balance, err)
	}
}

// verified has the ledger derived again from its first entry.
func (b *bundle) verified(ctx context.Context, t failer) {
	if r, err := b.ledger.Verify(ctx, ids.Tenant{}); err != nil || !r.OK() {
		t.Fatalf("the ledger: %+v, %v", r, err)
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
		must(t, b.open(ctx, i, t0))
	}
	_, told, err := b.tick(ctx, t0+3600)
	must(t, err)
	var transfers, entries int
	must(t, b.db.QueryRow(ctx, "SELECT (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM ledger_entries)").Scan(&transfers, &entries))
	if told != 2 || transfers != 2 || entries != 3+2 {
		t.Errorf("%d transfers, %d entries, reported %d", transfers, entries, told)
	}
}

func TestNothingToDoIsNoTick(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if ticks, _, err := b.tick(ctx, t0); err != nil || len(ticks) > 0 {
		t.Errorf("nothing metered: %+v, %v", ticks, err)
	}
	i := h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	for _, c := range []struct {
		rule  string
		at    int64
		ticks int
	}{{"same second", t0, 0}, {"later", t0 + 10, 1}, {"again", t0 + 10, 0}, {"clock went back", t0 + 9, 0}} {
		if ticks, _, err := b.tick(ctx, c.at); err != nil || len(ticks) != c.ticks {
			t.Errorf("%s: %+v, %v", c.rule, ticks, err)
		}
	}
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 10) {
		t.Errorf("charged %d, want %d", got, owed(i, 10))
	}
}

func TestINV34ProductionUsesTheDatabaseClock(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	var before, after int64
	must(t, db.QueryRow(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()))").Scan(&before))
	batch := &pgx.Batch{}
	QueueOpen(batch, i, ObservedReady, nil)
	QueueClose(batch, i.Allocation, ReleaseRequested, nil)
	must(t, db.SendBatch(ctx, batch).Close())
	must(t, db.QueryRow(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()))").Scan(&after))
	var start, end int64
	must(t, db.QueryRow(ctx, "SELECT start_s, end_s FROM usage_records").Scan(&start, &end))
	if start < before || end > after || end < start {
		t.Errorf("metered [%d, %d) between %d and %d", start, end, before, after)
	}
}

// INV-34: no database role of a server can change the clock of metering.
func TestINV34NoServerMovesTheClock(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	for _, role := range []string{"gpuaas_api", "gpuaas_node", "gpuaas_reconcile", "gpuaas_work", "gpuaas_relay", "gpuaas_terminal"} {
		as := pgtest.As(t, db, role)
		for _, sql := range []string{
			`CREATE OR REPLACE FUNCTION metering_clock() RETURNS bigint LANGUAGE sql VOLATILE RETURN 1`,
			`ALTER FUNCTION metering_clock() RENAME TO was`,
			`DROP FUNCTION metering_moment()`,
		} {
			if _, err := as.Exec(t.Context(), sql); err == nil {
				t.Errorf("%s could: %s", role, sql)
			}
		}
	}
}

func TestINV30ATickIsChargedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	must(t, b.clock.Set(ctx, t0+100))
	must(t, b.Cut(ctx))
	tick := Tick{From: at(t0), To: at(t0 + 100)}
	first, err := b.db.Begin(ctx)
	must(t, err)
	if _, done, err := b.Charge(ctx, first, tick); err != nil || !done {
		t.Errorf("the first pass: %v, %v", done, err)
	}
	// While a pass is open, another pass does nothing and leaves nothing.
	for range 2 {
		must(t, pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
			if n, done, err := b.Charge(ctx, tx, tick); err != nil || done || n > 0 {
				t.Errorf("charged again: %d, %v, %v", n, done, err)
			}
			return nil
		}))
		_ = first.Commit(ctx)
	}
	if got := b.charged(ctx, t, i.Allocation); got != owed(i, 100) {
		t.Errorf("charged %d, want %d", got, owed(i, 100))
	}
	// Without the lock, the primary key still prevents a second pass.
	if _, err := b.db.Exec(ctx, chargeUsage, t0, t0+100); err == nil {
		t.Error("the key of usage_passes let a second pass through")
	}
}

func TestINV37NothingWraps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	most := h100(ids.New[ids.Tenant]())
	most.GPUs, most.PriceMinor = 100_000, 1_000_000_000
	must(t, b.open(ctx, most, 0))
	seconds := int64(10 * 365 * 24 * 3600)
	day := int64(24 * 3600)
	_, _, err := b.tick(ctx, day)
	must(t, err)
	if got := b.charged(ctx, t, most.Allocation); got != owed(most, day) {
		t.Errorf("a day came to %d, want %d", got, owed(most, day))
	}
	must(t, b.close(ctx, most.Allocation, seconds))
	costs, err := costsOf(ctx, b.db, []ids.Allocation{most.Allocation})
	if got := int64(costs[most.Allocation]); err != nil || got != owed(most, seconds) {
		t.Errorf("ten years came to %d, want %d: %v", got, owed(most, seconds), err)
	}
	for name, change := range map[string]func(*Interval){
		"price": func(i *Interval) { i.PriceMinor++ }, "gpus": func(i *Interval) { i.GPUs++ },
		"negative price": func(i *Interval) { i.PriceMinor = -1 }, "no gpus": func(i *Interval) { i.GPUs = 0 },
	} {
		i := most
		i.Allocation = ids.New[ids.Allocation]()
		change(&i)
		if err := b.open(ctx, i, 0); err == nil {
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
	must(t, b.open(ctx, one, t0))
	must(t, b.close(ctx, one.Allocation, t0+100))
	must(t, b.open(ctx, one, t0+200)) // its use was interrupted
	must(t, b.close(ctx, one.Allocation, t0+300))
	must(t, b.open(ctx, two, t0+50))
	must(t, b.open(ctx, h100(ids.New[ids.Tenant]()), t0))

	must(t, b.clock.Set(ctx, t0+2000))
	at := func(s int64) time.Time { return time.Unix(t0+s, 0) }
	query := func(from, to int64, change func(*Query)) []Usage {
		q := Query{Tenant: tenant, From: at(from), To: at(to), By: ByAllocation, Limit: 10}
		change(&q)
		list, err := b.Usage(ctx, q)
		must(t, err)
		return list
	}
	all := query(-50, 1000, func(*Query) {})
	if len(all) != 2 || all[0].Allocation != one.Allocation || all[0].Seconds != 200 || all[0].GPUSeconds != 600 ||
		all[0].CostMinor != money.Minor(2*owed(one, 100)) || all[0].EndedAt == nil || all[0].EndedAt.Unix() != t0+300 {
		t.Errorf("usage %+v", all)
	}
	if len(all) == 2 && (all[1].EndedAt != nil || all[1].StartedAt.Unix() != t0+50) {
		t.Errorf("open usage %+v", all[1])
	}
	if page := query(0, 1000, func(q *Query) { q.After = all[0].Key }); len(page) != 1 || page[0].Allocation != two.Allocation {
		t.Errorf("next page %+v", page)
	}
	if ours := query(-50, 1000, func(q *Query) { q.Project = two.Project }); one.Project == two.Project || len(ours) != 1 || ours[0].Allocation != two.Allocation {
		t.Errorf("of one project %+v", ours)
	}
	cut := query(90, 210, func(q *Query) { q.Limit = 1 })
	if len(cut) != 1 || cut[0].Seconds != 20 || cut[0].CostMinor != money.Minor(owed(one, 100)-owed(one, 90)+owed(one, 10)) {
		t.Errorf("window %+v", cut)
	}
	if none := query(-100, 0, func(*Query) {}); len(none) != 0 {
		t.Errorf("before the start %+v", none)
	}
	if _, err := b.Usage(ctx, Query{Tenant: tenant, By: "colour"}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("by colour: %v", err)
	}

	costs, err := costsOf(ctx, b.db, []ids.Allocation{one.Allocation, {UUID: uuid.New()}})
	if err != nil || len(costs) != 1 || costs[one.Allocation] != money.Minor(2*owed(one, 100)) {
		t.Errorf("costs %v, %v", costs, err)
	}
	if burn, err := b.Burn(ctx, b.db, tenant); err != nil || burn != 3*199 {
		t.Errorf("burn %d, %v", burn, err)
	}
}

func costsOf(ctx context.Context, q pg.Queryer, of []ids.Allocation) (map[ids.Allocation]money.Minor, error) {
	b := &pgx.Batch{}
	costs := QueueCosts(b, of)
	return costs, q.SendBatch(ctx, b).Close()
}
