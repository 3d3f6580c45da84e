package billing_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/metering/meteringtest"
)

// books are a tenant's over some months. What happens is written by their owner;
// statements are read as the API's role does, under the tenant's scope.
type books struct {
	*testing.T
	*billing.Statements

	ctx      context.Context
	db       *pgxpool.Pool
	clock    meteringtest.Clock
	metering *metering.Service
	ledger   *ledger.Service
	tenant   ids.Tenant
	balance  uuid.UUID
	projects []ids.Project
	now      time.Time
	open     []ids.Allocation
}

func openBooks(t *testing.T, at time.Time) *books {
	t.Helper()
	db := pgtest.Clone(t)
	b := &books{
		T: t, db: db, clock: meteringtest.New(t, db, at.Unix()), metering: &metering.Service{DB: db}, ledger: &ledger.Service{DB: db},
		tenant: ids.New[ids.Tenant](), now: at,
	}
	must(t, b.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'books')`, b.tenant))
	for _, name := range []string{"one", "two"} {
		p := ids.New[ids.Project]()
		must(t, b.exec(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, $3)`, p, b.tenant, name))
		b.projects = append(b.projects, p)
	}
	must(t, db.QueryRow(t.Context(), `SELECT ledger_ensure_accounts($1, 'EUR')`, b.tenant).Scan(&b.balance))
	api := pgtest.Scoped(t, db)
	b.Statements = &billing.Statements{
		DB: api, Identity: &identity.Service{DB: api}, Ledger: &ledger.Service{DB: api}, Metering: &metering.Service{DB: api},
		Clock: clock.At(func() time.Time { return b.now }),
	}
	b.ctx = pg.WithScope(t.Context(), pg.Scope{Tenant: b.tenant.String(), Principal: ids.New[ids.User]().String()})
	return b
}

func (b *books) exec(sql string, args ...any) error {
	_, err := b.db.Exec(b.Context(), sql, args...)
	return err
}

func (b *books) wait(d time.Duration) {
	b.now = b.now.Add(d)
	must(b.T, b.clock.Set(b.Context(), b.now.Unix()))
}

// post posts a transfer at the test's time, independent of the database's clock.
func (b *books) post(kind ledger.Kind, against string, amount money.Minor) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	must(b.T, b.exec(`WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, at, org_id, amount_minor) VALUES ($1, $2, $3, $6, $8, $5) RETURNING id)
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency, at)
		SELECT t.id, e.account, e.amount, 'EUR', $6 FROM t, (VALUES ($4::uuid, $5::bigint),
			((SELECT id FROM ledger_accounts WHERE org_id IS NULL AND name = $7 AND currency = 'EUR'), -$5)) AS e (account, amount)`,
		id, kind, id.String(), b.balance, amount, b.now, against, b.tenant))
	return id
}

func (b *books) begin(r *rand.Rand) {
	i := metering.Interval{
		Allocation: ids.New[ids.Allocation](), Tenant: b.tenant, Project: b.projects[r.IntN(2)], User: ids.New[ids.User](),
		SKU: []string{"h100", "t4"}[r.IntN(2)], GPUs: 1 + r.IntN(8), PriceMinor: money.Minor(1 + r.IntN(400)), Currency: "EUR",
	}
	batch := &pgx.Batch{}
	metering.QueueOpen(batch, i, metering.ObservedReady, nil)
	must(b.T, b.db.SendBatch(b.Context(), batch).Close())
	b.open = append(b.open, i.Allocation)
}

func (b *books) end(n int) ids.Allocation {
	a := b.open[n]
	b.open = append(b.open[:n], b.open[n+1:]...)
	batch := &pgx.Batch{}
	metering.QueueClose(batch, a, metering.ReleaseRequested, nil)
	must(b.T, b.db.SendBatch(b.Context(), batch).Close())
	return a
}

// fault gives a part of what an allocation has cost back.
func (b *books) fault(a ids.Allocation) {
	var record uuid.UUID
	var from, to int64
	must(b.T, b.db.QueryRow(b.Context(), `SELECT id, start_s, end_s FROM usage_records WHERE allocation_id = $1`, a).Scan(&record, &from, &to))
	if to <= from+1 {
		return
	}
	transfer := b.post(ledger.FaultCredit, "revenue", 3)
	must(b.T, b.exec(`INSERT INTO usage_credits (id, record_id, org_id, from_s, to_s, reason, amount_minor, transfer_id, at)
		VALUES ($1, $2, $3, $4, $5, 'node_unhealthy', 3, $6, $7)`, uuid.Must(uuid.NewV7()), record, b.tenant, to-1, to, transfer, b.now))
}

func (b *books) charge() {
	must(b.T, b.metering.Cut(b.Context()))
	ticks, err := b.metering.Uncharged(b.Context(), b.db)
	must(b.T, err)
	for _, t := range ticks {
		must(b.T, pgx.BeginFunc(b.Context(), b.db, func(tx pgx.Tx) error {
			_, _, err := b.metering.Charge(b.Context(), tx, t)
			return err
		}))
	}
}

// agree compares a statement with itself, the ledger and metering.
func (b *books) agree(m time.Time) billing.Statement {
	b.Helper()
	st, err := b.Statement(b.ctx, b.tenant, m)
	must(b.T, err)
	sum, credited := st.Opening, money.Minor(0)
	for _, u := range st.Uses {
		sum -= u.CostMinor
		credited += u.CreditMinor
		if u.ProjectName != "one" && u.ProjectName != "two" {
			b.Errorf("%s: of the project %q", st.Month(), u.ProjectName)
		}
	}
	byProject := money.Minor(0)
	for _, p := range st.Projects() {
		byProject -= p.CostMinor
	}
	if byProject != st.Usage {
		b.Errorf("%s: projects use %d, the statement has %d", st.Month(), byProject, st.Usage)
	}
	for _, e := range st.Movements {
		sum += e.AmountMinor
		if e.Kind == ledger.Usage {
			b.Errorf("%s: use among the movements", st.Month())
		}
	}
	if sum != st.Closing || st.Opening+st.TopUps+st.Usage+st.Credits+st.Refunds+st.Adjustments != st.Closing {
		b.Errorf("%s: opening and lines sum to %d, and it closes with %d: %+v", st.Month(), sum, st.Closing, st.Totals)
	}
	for at, want := range map[time.Time]money.Minor{st.From: st.Opening, st.To: st.Closing} {
		if have, err := b.ledger.BalanceAt(b.Context(), b.db, b.tenant, at); err != nil || have != want {
			b.Errorf("%s: the balance at %s is %d, %v, the statement has %d", st.Month(), at, have, err, want)
		}
	}
	kinds, err := b.ledger.SumByKind(b.Context(), b.db, b.tenant, st.From, st.To)
	must(b.T, err)
	// A statement of the current month contains credits only for usage that is charged.
	if ledgers := kinds[ledger.Usage]; ledgers != st.Usage || st.Final && credited != kinds[ledger.FaultCredit] {
		b.Errorf("%s: the ledger has use of %d and credits of %d, the statement %d and %d", st.Month(), ledgers, kinds[ledger.FaultCredit], st.Usage, credited)
	}
	charged, err := b.metering.ChargedTo(b.Context(), b.db, b.tenant)
	must(b.T, err)
	if charged.After(st.To) {
		charged = st.To
	}
	if charged.Before(st.From) {
		charged = st.From
	}
	for _, by := range []metering.By{metering.ByProject, metering.BySKU, metering.ByUser, metering.ByAllocation, metering.ByDay} {
		used := money.Minor(0)
		must(b.T, b.metering.EachUsage(b.Context(), metering.Query{Tenant: b.tenant, From: st.From, To: charged, By: by}, func(u metering.Usage) error {
			used += u.CostMinor
			return nil
		}))
		if used != -st.Usage {
			b.Errorf("%s by %s: used %d, the statement has %d", st.Month(), by, used, st.Usage)
		}
	}
	return st
}

// Over three months and their edges, with passes at odd times, every statement
// agrees with itself, with the ledger and with what was used, to the minor unit, at
// any moment, and from month to month.
func TestStatementsAgreeToTheMinorUnit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		january := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		b := openBooks(t, january.Add(time.Duration(r.IntN(9*86400))*time.Second))
		b.post(ledger.TestCredit, "promotions", 1e9)
		last := january.AddDate(0, 3, 0)
		for b.now.Before(last.Add(time.Hour)) {
			switch n := r.IntN(20); {
			case n < 6:
				b.begin(r)
			case n < 9 && len(b.open) > 0:
				a := b.end(r.IntN(len(b.open)))
				if r.IntN(3) == 0 {
					b.fault(a)
				}
			case n == 9:
				b.post(ledger.TopUp, "clearing", money.Minor(1+r.IntN(1e5)))
			case n == 10:
				b.post(ledger.Adjustment, "adjustments", money.Minor(r.IntN(2000)-1000))
			case n == 11:
				b.post(ledger.RefundCardUnspent, "clearing", -money.Minor(1+r.IntN(500)))
			case n == 12:
				b.post(ledger.RefundLedger, "refunds", money.Minor(1+r.IntN(500)))
			case n == 13: // to a second of the month's edge
				if edge := time.Date(b.now.Year(), b.now.Month()+1, 1, 0, 0, 0, 0, time.UTC); b.now.Add(time.Second).Before(edge) {
					b.wait(edge.Add(time.Duration(r.IntN(3)-1) * time.Second).Sub(b.now))
				}
			case n < 17:
				b.charge()
			}
			b.wait(time.Duration(1+r.IntN(2*86400)) * time.Second)
			if r.IntN(8) == 0 {
				b.agree(b.now)
			}
		}
		b.charge()
		months := b.months()
		for i, st := range months {
			full := b.agree(st.From)
			if full.Totals != st || !st.Final != st.From.Equal(last) {
				t.Errorf("seed %d: listed as %+v, and displayed as %+v", seed, st, full.Totals)
			}
			if i > 0 && months[i-1].Opening != st.Closing {
				t.Errorf("seed %d: %s closes with %d, and the next opens with %d", seed, st.Month(), st.Closing, months[i-1].Opening)
			}
		}
		if len(months) != 4 || months[0].Usage > 0 || months[1].Usage == 0 {
			t.Errorf("seed %d: %d months: this test compares too little: %+v", seed, len(months), months)
		}
	}
}

// months lists them in pages of one, and at once.
func (b *books) months() []billing.Totals {
	b.Helper()
	all, err := b.Months(b.ctx, b.tenant, time.Time{}, 50)
	must(b.T, err)
	before := time.Time{}
	for i := 0; ; i++ {
		page, err := b.Months(b.ctx, b.tenant, before, 1)
		must(b.T, err)
		if len(page) == 0 {
			if i != len(all) {
				b.Errorf("%d pages of %d months", i, len(all))
			}
			return all
		}
		if i >= len(all) || page[0] != all[i] {
			b.Fatalf("page %d has %+v", i, page)
		}
		before = page[0].From
	}
}

// A month is final when it is over and everything in it is charged; of a tenant
// that has used nothing, when it is over.
func TestStatementsBecomeFinal(t *testing.T) {
	t.Parallel()
	february := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	b := openBooks(t, february.Add(-time.Hour))
	final := func() bool {
		t.Helper()
		return b.agree(february.AddDate(0, -1, 0)).Final
	}
	b.post(ledger.TopUp, "clearing", 1e6)
	if final() {
		t.Error("it is not over")
	}
	b.begin(rand.New(rand.NewPCG(1, 1)))
	b.wait(30 * time.Minute)
	b.charge()
	b.wait(time.Hour)
	if final() {
		t.Error("its last half hour is not charged")
	}
	b.charge()
	if !final() {
		t.Error("it is over, and charged")
	}

	idle := openBooks(t, february.Add(-time.Hour))
	idle.post(ledger.TopUp, "clearing", 500)
	idle.wait(time.Hour)
	if st := idle.agree(february.Add(-time.Second)); !st.Final || st.Closing != 500 || len(st.Uses) != 0 {
		t.Errorf("%+v", st.Totals)
	}
}

func TestStatementsOfOtherMonthsAndTenants(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 2, 10, 0, 0, 0, 0, time.UTC)
	b, other := openBooks(t, now), ids.New[ids.Tenant]()
	if list, err := b.Months(b.ctx, b.tenant, time.Time{}, 10); err != nil || len(list) != 0 {
		t.Errorf("before any money: %v, %v", list, err)
	}
	b.post(ledger.TopUp, "clearing", 500)
	must(t, b.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'other')`, other))
	for what, c := range map[string]struct {
		ctx    context.Context
		tenant ids.Tenant
		month  time.Time
	}{
		"before the first entry": {b.ctx, b.tenant, now.AddDate(0, -1, 0)},
		"in future":              {b.ctx, b.tenant, now.AddDate(0, 1, 0)},
		"another tenant's":       {pg.WithScope(t.Context(), pg.Scope{Tenant: other.String()}), b.tenant, now},
		"of one without money":   {pg.WithScope(t.Context(), pg.Scope{Tenant: other.String()}), other, now},
	} {
		if st, err := b.Statement(c.ctx, c.tenant, c.month); errs.CodeOf(err) != errs.NotFound {
			t.Errorf("%s: %+v, %v", what, st.Totals, err)
		}
	}
	if st, err := b.Statement(b.ctx, b.tenant, now); err != nil || st.TopUps != 500 || st.Tenant.Name != "books" {
		t.Errorf("%+v, %v", st, err)
	}
}
