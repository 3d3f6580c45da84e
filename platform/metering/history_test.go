package metering

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// history applies random operations to a few allocations on a real database and on the model.
type history struct {
	*bundle
	model

	ctx    context.Context
	uses   []*use
	prices map[string]int64
	begun  []pgx.Tx
}

type use struct {
	Interval

	open *span
	last int64  // where its last interval ended
	held pgx.Tx // has changed it and not committed yet
	redo func() // applied to the model when the open transaction commits
}

// edges are the seconds at which a calendar does something: the ends of a month, a
// year, a February of each kind, and the nights on which clocks of people change.
var edges = []string{
	"2027-01-31T24:00:00Z", "2027-12-31T24:00:00Z", "2028-02-28T24:00:00Z", "2028-02-29T24:00:00Z", "2100-02-28T24:00:00Z",
	"2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z", "2027-03-14T10:00:00Z", "2027-06-15T12:34:56Z",
}

func edge(text string) int64 {
	day, clock, _ := strings.Cut(text, "T24:00:00Z")
	if clock == "" && !strings.Contains(day, "T") {
		t, err := time.Parse(time.DateOnly, day)
		if err != nil {
			panic(err)
		}
		return t.AddDate(0, 0, 1).Unix()
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.Unix()
}

func (h *history) at(t failer, now int64) {
	h.now = now
	must(t, h.clock.Set(h.ctx, now))
}

func (h *history) advance(t *rapid.T) {
	h.at(t, h.now+rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 90), rapid.Int64Range(300, 9_000)).Draw(t, "seconds"))
}

// jump is a clock that was set wrong, or right.
func (h *history) jump(t *rapid.T) {
	h.at(t, h.now+rapid.OneOf(rapid.Int64Range(-7_200, -1), rapid.Int64Range(80_000, 200_000)).Draw(t, "by"))
}

// pick returns a use that waits for no transaction, or nil if all do.
func (h *history) pick(t *rapid.T) *use {
	var free []*use
	for _, u := range h.uses {
		if u.held == nil {
			free = append(free, u)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return free[rapid.IntRange(0, len(free)-1).Draw(t, "allocation")]
}

// pickOpen also ends an open transaction of the use, but at once, so it delays no cut.
func (h *history) pickOpen(t *rapid.T) *use {
	u := h.pick(t)
	if u == nil || u.open != nil {
		return u
	}
	b := &pgx.Batch{}
	QueueClose(b, u.Allocation, ReleaseRequested, nil)
	must(t, h.db.SendBatch(h.ctx, b).Close())
	return nil
}

// change happens in a transaction that commits at once, late or never.
func (h *history) change(t *rapid.T, u *use, do func(pgx.Tx) error, learn func()) {
	tx := h.begin(t)
	must(t, do(tx))
	switch rapid.SampledFrom([]string{"commits", "commits", "commits", "late", "never"}).Draw(t, "end") {
	case "commits":
		must(t, tx.Commit(h.ctx))
		learn()
	case "late":
		// The model must know when it happened, not when it was committed.
		now, cut := h.now, slices.Clone(h.cuts)
		u.held, u.redo = tx, func() {
			then, cuts := h.now, h.cuts
			h.now, h.cuts = now, cut
			learn()
			h.now, h.cuts = then, cuts
		}
	case "never":
		must(t, tx.Rollback(h.ctx))
	}
}

func batched(queue func(*pgx.Batch)) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		queue(b)
		return tx.SendBatch(context.Background(), b).Close()
	}
}

func (h *history) opens(t *rapid.T) {
	u := h.pick(t)
	if u == nil {
		return
	}
	by := rapid.SampledFrom([]Cause{ObservedReady, ObservedAgain}).Draw(t, "by")
	i, price := u.Interval, h.prices[u.SKU]
	i.PriceMinor = money.Minor(price)
	seen := &Observation{Fence: 1, ObservedAt: time.Unix(h.now, 0)}
	h.change(t, u, batched(func(b *pgx.Batch) { QueueOpen(b, i, by, seen) }), func() { h.model.open(u, price, by) })
}

func (h *history) closes(t *rapid.T) {
	u := h.pickOpen(t)
	if u == nil {
		return
	}
	h.change(t, u, batched(func(b *pgx.Batch) { QueueClose(b, u.Allocation, ReleaseRequested, nil) }), func() { h.model.close(u, ReleaseRequested) })
}

// pauses simulates a partition or an unhealthy node: a fault of the platform since the last report.
func (h *history) pauses(t *rapid.T) {
	u := h.pickOpen(t)
	if u == nil {
		return
	}
	by := rapid.SampledFrom([]Cause{ObservationStale, NodeUnhealthy}).Draw(t, "by")
	seen := h.now - rapid.Int64Range(0, 4_000).Draw(t, "unseen for")
	h.change(t, u, func(tx pgx.Tx) error {
		_, err := Pause(h.ctx, tx, u.Allocation, by, Observation{ObservedAt: time.Unix(seen, 0)})
		return err
	}, func() {
		if s := h.model.close(u, by); s != nil {
			s.credit = [2]int64{max(seen, s.start), s.end}
		}
	})
}

// reprices waits for no other transaction: in production the lock on the allocation's row excludes those
// that open and close.
func (h *history) reprices(t *rapid.T) {
	if h.busy() {
		return
	}
	sku := rapid.SampledFrom([]string{"h100", "t4"}).Draw(t, "SKU")
	price := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(1, 5_000), rapid.Int64Range(1, 1_000_000_000)).Draw(t, "price")
	tx := h.begin(t)
	must(t, batched(func(b *pgx.Batch) { QueueReprice(b, sku, "EUR", money.Minor(price)) })(tx))
	if rapid.IntRange(0, 4).Draw(t, "crash") == 0 {
		must(t, tx.Rollback(h.ctx))
		return
	}
	must(t, tx.Commit(h.ctx))
	h.prices[sku] = price
	for _, u := range h.uses {
		if u.SKU == sku && u.open != nil && u.open.price != price {
			h.model.close(u, PriceChanged)
			h.model.open(u, price, PriceChanged)
		}
	}
}

func (h *history) commitsLate(t *rapid.T) {
	for _, u := range h.uses {
		if u.held != nil && rapid.Bool().Draw(t, "now") {
			h.let(t, u)
		}
	}
}

func (h *history) let(t failer, u *use) {
	must(t, u.held.Commit(h.ctx))
	u.held = nil
	u.redo()
}

// begin opens a transaction that may stay open, or that a failed check abandons.
func (h *history) begin(t failer) pgx.Tx {
	tx, err := h.db.Begin(h.ctx)
	must(t, err)
	h.begun = append(h.begun, tx)
	return tx
}

// drop ends those that have not ended.
func (h *history) drop() {
	for _, tx := range h.begun {
		_ = tx.Rollback(h.ctx)
	}
}

func (h *history) busy() bool {
	return slices.ContainsFunc(h.uses, func(u *use) bool { return u.held != nil })
}

// cuts may be killed before the commit, and waits for no transaction that blocks it.
func (h *history) cutsTime(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
		tx := h.begin(t)
		if err := h.bundle.cut(h.ctx, tx); err != nil && !h.busy() {
			t.Fatalf("cutting: %v", err)
		}
		must(t, tx.Rollback(h.ctx))
		return
	}
	h.cutNow(t)
}

func (h *history) cutNow(t failer) {
	must(t, h.Cut(h.ctx))
	if !h.busy() {
		h.cut()
	}
}

// charges the next tick, dies before its commit, or meets others that do the same.
func (h *history) charges(t *rapid.T) {
	ticks, err := h.Uncharged(h.ctx, h.db)
	must(t, err)
	if len(ticks) != len(h.cuts)-h.model.charged {
		t.Fatalf("%d ticks are not charged, want %d", len(ticks), len(h.cuts)-h.model.charged)
	}
	if len(ticks) == 0 {
		return
	}
	switch rapid.SampledFrom([]string{"one", "all", "crash", "at once", "reordered"}).Draw(t, "pass") {
	case "one":
		h.charge(t, ticks[0])
		h.model.charged++
	case "all":
		h.chargeAll(t)
	case "crash":
		tx := h.begin(t)
		_, _, err := h.Charge(h.ctx, tx, ticks[0])
		must(t, err)
		must(t, tx.Rollback(h.ctx))
	case "at once":
		h.chargeAtOnce(t, ticks)
	case "reordered":
		if done := h.charge(t, ticks[len(ticks)-1]); done {
			if len(ticks) > 1 {
				t.Fatalf("charged the last of %d ticks before the others", len(ticks))
			}
			h.model.charged++
		}
	}
}

func (h *history) charge(t failer, tick Tick) (done bool) {
	must(t, pgx.BeginFunc(h.ctx, h.db, func(tx pgx.Tx) (err error) {
		_, done, err = h.Charge(h.ctx, tx, tick)
		return err
	}))
	return done
}

func (h *history) chargeAll(t failer) {
	ticks, err := h.Uncharged(h.ctx, h.db)
	must(t, err)
	for _, tick := range ticks {
		if !h.charge(t, tick) {
			t.Fatalf("the tick up to %s was not charged", tick.To)
		}
		h.model.charged++
	}
}

// chargeAtOnce runs the job three times concurrently. A run that meets another gives up.
func (h *history) chargeAtOnce(t failer, ticks []Tick) {
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for _, tick := range ticks {
				_ = pgx.BeginFunc(h.ctx, h.db, func(tx pgx.Tx) error {
					_, _, err := h.Charge(h.ctx, tx, tick)
					return err
				})
			}
		})
	}
	wg.Wait()
	must(t, h.db.QueryRow(h.ctx, `SELECT count(*) FROM usage_passes`).Scan(&h.model.charged))
}

// check compares the charged amounts with the model. An open transaction cannot change them: it began
// after the last cut.
func (h *history) check(t *rapid.T) {
	want := map[string]int64{}
	for _, s := range h.spans {
		if owed := s.owes(s.start, h.chargedUntil()); owed > 0 {
			want[s.use.Allocation.String()] += owed
		}
	}
	h.same(t, "charged so far", want, `SELECT allocation_id::text, -sum(e.amount_minor)::bigint FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
		WHERE t.kind = 'usage' AND allocation_id IS NOT NULL GROUP BY 1`)
}

func (h *history) same(t failer, what string, want map[string]int64, sql string, args ...any) {
	rows, err := h.db.Query(h.ctx, sql, args...)
	must(t, err)
	got := map[string]int64{}
	var key string
	var sum int64
	_, err = pgx.ForEachRow(rows, []any{&key, &sum}, func() error {
		got[key] = sum
		return nil
	})
	must(t, err)
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// finish charges all usage, and compares every amount that a query returns.
func (h *history) finish(t *rapid.T) {
	for _, u := range h.uses {
		if u.held != nil {
			h.let(t, u)
		}
	}
	for _, s := range h.spans {
		h.now = max(h.now, s.start, s.end)
	}
	h.at(t, max(h.now, h.lastCut())+1)
	h.cutNow(t)
	h.chargeAll(t)
	h.check(t)
	if len(h.cuts) == 0 {
		return // nothing was ever used
	}
	until := h.lastCut()

	const posted = `SELECT allocation_id || ' ' || to_char(e.at AT TIME ZONE 'UTC', $1), -sum(e.amount_minor)::bigint FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
		WHERE t.kind = 'usage' AND allocation_id IS NOT NULL GROUP BY 1`
	h.same(t, "by day", h.byPeriod(until, "2006-01-02"), posted, "YYYY-MM-DD")
	h.same(t, "by month", h.byPeriod(until, "2006-01"), posted, "YYYY-MM")
	given := map[string]int64{}
	for _, s := range h.spans {
		if n := s.given(); n > 0 {
			given[s.use.Allocation.String()] += n
		}
	}
	h.same(t, "fault credits", given, `SELECT allocation_id::text, sum(e.amount_minor)::bigint FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
		WHERE t.kind = 'fault_credit' AND e.amount_minor > 0 GROUP BY 1`)
	h.same(t, "fault credits of metering", given, `SELECT r.allocation_id::text, sum(amount_minor)::bigint FROM usage_credits c JOIN usage_records r ON r.id = c.record_id
		WHERE amount_minor > 0 GROUP BY 1`)

	ticks := map[string]int64{}
	for i, to := range h.cuts {
		from := h.first
		if i > 0 {
			from = h.cuts[i-1]
		}
		ticks[strconv.FormatInt(from, 10)] = to
	}
	h.same(t, "ticks", ticks, `SELECT from_s::text, to_s FROM usage_ticks`)
	intervals := map[string]int64{}
	for _, s := range h.spans {
		intervals[fmt.Sprintf("%s %s %d %s %d %d", s.use.Allocation, s.opened, s.start, s.closed, s.end, s.price)]++
	}
	h.same(t, "intervals", intervals, `SELECT concat_ws(' ', allocation_id, opened_by, start_s, coalesce(closed_by, ''), coalesce(end_s, 0), price_minor), count(*) FROM usage_records GROUP BY 1`)
	h.reads(t, until)
	if n, found, err := h.Compare(h.ctx, at(0), at(until+1)); err != nil || len(found) > 0 || n != len(h.cuts) {
		t.Fatalf("derived %d of %d ticks again: %+v, %v", n, len(h.cuts), found, err)
	}
	h.verified(h.ctx, t)
}

// reads queries usage as a tenant does. The sums of each allocation and of each day equal those of the
// ledger.
func (h *history) reads(t *rapid.T, until int64) {
	byDay, byAllocation := map[string]int64{}, map[string]int64{}
	for key, owed := range h.byPeriod(until, "2006-01-02") {
		a, day, _ := strings.Cut(key, " ")
		byAllocation[a] += owed
		byDay[day] += owed
	}
	for by, want := range map[By]map[string]int64{ByDay: byDay, ByAllocation: byAllocation} {
		got := map[string]int64{}
		for _, tenant := range []ids.Tenant{h.uses[0].Tenant, h.uses[1].Tenant} {
			must(t, h.EachUsage(h.ctx, Query{Tenant: tenant, From: at(h.first), To: at(until), By: by}, func(u Usage) error {
				if u.CostMinor != 0 {
					got[u.Key] += int64(u.CostMinor)
				}
				return nil
			}))
		}
		if !maps.Equal(got, want) {
			t.Fatalf("read by %s: %v, want %v", by, got, want)
		}
	}
}

// clean makes the database as new, for the next history. Facts are not to be
// deleted; a superuser who means it is not stopped.
const clean = `SET session_replication_role = replica;
	DELETE FROM usage_records; DELETE FROM usage_credits; DELETE FROM usage_ticks; DELETE FROM usage_passes;
	DELETE FROM ledger_entries; DELETE FROM ledger_transfers; DELETE FROM ledger_checkpoints; DELETE FROM ledger_accounts;
	RESET session_replication_role`

// shard is the number of histories per database.
const shard = 100

// TestINV30RandomHistories: for any sequence of operations, cuts and crashes, the charges equal the
// usage to the minor unit, for each allocation, each day and each month. It runs 500 histories;
// GPUAAS_HISTORIES sets another number.
func TestINV30RandomHistories(t *testing.T) {
	t.Parallel()
	histories := 500
	if text := os.Getenv("GPUAAS_HISTORIES"); text != "" {
		histories, _ = strconv.Atoi(text)
	}
	for i := range histories / shard {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.waits = 5 * time.Millisecond
			rapid.Check(t, func(r *rapid.T) { happen(r, b) })
		})
	}
}

func happen(r *rapid.T, b *bundle) {
	h := &history{bundle: b, ctx: context.Background(), prices: map[string]int64{"h100": 199, "t4": 7}}
	_, err := b.db.Exec(h.ctx, clean)
	must(r, err)
	defer h.drop()
	h.at(r, edge(rapid.SampledFrom(edges).Draw(r, "edge"))-rapid.Int64Range(0, 7_200).Draw(r, "before"))
	tenants := []ids.Tenant{ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
	for _, tenant := range tenants {
		// Created in an open transaction, they would block the others.
		must(r, pgx.BeginFunc(h.ctx, b.db, func(tx pgx.Tx) error {
			_, err := b.ledger.EnsureAccounts(h.ctx, tx, tenant, "EUR")
			return err
		}))
	}
	for i := range 4 {
		interval := h100(tenants[i%2])
		interval.SKU = []string{"h100", "t4"}[i/2]
		interval.GPUs = rapid.IntRange(1, 8).Draw(r, "gpus")
		h.uses = append(h.uses, &use{Interval: interval, last: -1 << 62})
	}
	// What is drawn is more often small than great: most of these are of use only
	// when something is open and time has passed.
	actions := []func(*rapid.T){
		h.opens, h.advance, h.pauses, h.cutsTime, h.advance, h.reprices, h.closes, h.opens,
		h.charges, h.jump, h.commitsLate, h.advance, h.cutsTime, h.commitsLate, h.check,
	}
	for range rapid.IntRange(20, 80).Draw(r, "steps") {
		actions[rapid.IntRange(0, len(actions)-1).Draw(r, "action")](r)
	}
	h.finish(r)
}
