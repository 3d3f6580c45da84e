package metering

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// history is a world that is cut at random, and the model it is judged by: what
// each allocation owes, from the true beginnings and ends of its intervals.
type history struct {
	*bundle
	ctx    context.Context
	now    int64
	uses   []*use
	passes int
}

type use struct {
	Interval
	start  int64  // of the open interval; 0 when there is none
	closed int64  // owed for intervals that have ended
	held   pgx.Tx // has changed this allocation and not committed yet
	redo   func() // what the model learns when held commits
}

func (h *history) advance(t *rapid.T) {
	h.now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 90), rapid.Int64Range(3_000, 90_000)).Draw(t, "seconds")
}

// wobble is the time by a clock that is off by a little.
func (h *history) wobble(t *rapid.T) int64 {
	return h.now + rapid.Int64Range(-3, 3).Draw(t, "off")
}

func (h *history) pick(t *rapid.T) *use {
	u := rapid.SampledFrom(h.uses).Draw(t, "allocation")
	if u.held != nil {
		t.Skip("waits for its transaction")
	}
	return u
}

// change opens or closes, and commits at once, later or never.
func (h *history) change(t *rapid.T) {
	u := h.pick(t)
	at := h.wobble(t)
	tx, err := h.db.Begin(h.ctx)
	must(t, err)
	var learn func()
	if rapid.Bool().Draw(t, "opens") {
		must(t, open(h.ctx, tx, u.Interval, at))
		learn = func() {
			if u.start == 0 {
				u.start = at
			}
		}
	} else {
		must(t, closeAt(h.ctx, tx, u.Allocation, at))
		learn = func() {
			if u.start != 0 {
				u.closed += owed(u.Interval, max(at-u.start, 0))
				u.start = 0
			}
		}
	}
	switch rapid.SampledFrom([]string{"commits", "commits", "late", "never"}).Draw(t, "end") {
	case "commits":
		must(t, tx.Commit(h.ctx))
		learn()
	case "late":
		u.held, u.redo = tx, learn
	case "never":
		must(t, tx.Rollback(h.ctx))
	}
}

func (h *history) commitLate(t *rapid.T) {
	for _, u := range h.uses {
		if u.held != nil && rapid.Bool().Draw(t, "now") {
			h.release(t, u)
		}
	}
}

func (h *history) release(t *rapid.T, u *use) {
	must(t, u.held.Commit(h.ctx))
	u.held = nil
	u.redo()
}

// drop ends what a failed check leaves open.
func (h *history) drop() {
	for _, u := range h.uses {
		if u.held != nil {
			_ = u.held.Rollback(h.ctx)
		}
	}
}

// pass is one, one that is taken away by a crash, or several at once.
func (h *history) pass(t *rapid.T) {
	at := h.wobble(t)
	switch rapid.SampledFrom([]string{"one", "one", "crash", "three"}).Draw(t, "pass") {
	case "one":
		_, err := h.tick(h.ctx, at)
		must(t, err)
	case "crash":
		tx, err := h.db.Begin(h.ctx)
		must(t, err)
		_, err = h.accrue(h.ctx, tx, &at)
		must(t, err)
		must(t, tx.Rollback(h.ctx))
	case "three":
		var wg sync.WaitGroup
		for i := range int64(3) {
			wg.Go(func() { _, _ = h.tick(h.ctx, at+i) }) // whoever loses may fail; the sums tell
		}
		wg.Wait()
	}
	h.passes++
}

// check compares what is charged with the model, whenever nothing is held back.
func (h *history) check(t *rapid.T) {
	for _, u := range h.uses {
		if u.held != nil {
			return
		}
	}
	h.now += 10 // beyond every wobble
	tick, err := h.tick(h.ctx, h.now)
	must(t, err)
	if tick == (Tick{}) {
		return // nothing was ever opened
	}
	for _, u := range h.uses {
		want := u.closed
		if u.start != 0 {
			want += owed(u.Interval, max(h.now-u.start, 0))
		}
		if got := h.charged(h.ctx, t, u.Allocation); got != want {
			t.Fatalf("allocation %s at %d: charged %d, owes %d", u.Allocation, h.now, got, want)
		}
	}
}

// TestINV30LedgerEqualsUsage: however time is cut, however late a change is
// committed, whichever passes crash or run twice, the charges of an allocation
// sum to what its intervals owe.
func TestINV30LedgerEqualsUsage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(r *rapid.T) {
		h := &history{bundle: b, ctx: t.Context(), now: t0}
		_, err := b.db.Exec(h.ctx, "TRUNCATE usage_records, usage_changes, usage_ticks")
		must(r, err)
		defer h.drop()
		tenants := []ids.Tenant{ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
		for _, tenant := range tenants {
			// Made in a transaction that is held, they would hold up the others.
			must(r, pgx.BeginFunc(h.ctx, b.db, func(tx pgx.Tx) error {
				_, err := b.ledger.EnsureAccounts(h.ctx, tx, tenant, "EUR")
				return err
			}))
		}
		for i := range 4 {
			interval := h100(tenants[i%2])
			interval.GPUs = rapid.IntRange(1, 8).Draw(r, "gpus")
			interval.PriceMinor = money.Minor(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(1, 5_000), rapid.Int64Range(1, 1_000_000_000)).Draw(r, "price"))
			h.uses = append(h.uses, &use{Interval: interval})
		}
		r.Repeat(map[string]func(*rapid.T){
			"advance": h.advance, "change": h.change, "change again": h.change,
			"commit late": h.commitLate, "pass": h.pass, "check": h.check,
		})
		for _, u := range h.uses {
			if u.held != nil {
				h.release(r, u)
			}
		}
		h.check(r)
		if report, err := b.ledger.Verify(h.ctx, ids.Tenant{}); err != nil || !report.OK() {
			r.Fatalf("the ledger says %+v, %v", report, err)
		}
	})
}
