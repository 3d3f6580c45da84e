package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering/meteringtest"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// justNow is the start time of a server that has just started.
func justNow() time.Time { return clock.Clock{}.Now() }

// used is an allocation of two GPUs that its node has reported ready an hour ago.
func (b *bundle) used() (allocation.Allocation, meteringtest.Clock, int64) {
	b.t.Helper()
	now := time.Now().Unix()
	clock := meteringtest.New(b.t, b.DB, now-3600)
	a := b.Request(b.t, 2)
	b.reports(b.node, b.is(a, protocol.Ready))
	b.done(record(b, a, plan.NodeReady))
	b.set(clock, now)
	return a, clock, now
}

func (b *bundle) set(clock meteringtest.Clock, at int64) {
	b.t.Helper()
	if err := clock.Set(b.t.Context(), at); err != nil {
		b.t.Fatal(err)
	}
}

// silentSince moves the time of the node's last report back.
func (b *bundle) silentSince(second int64) {
	b.exec(`UPDATE observed_nodes SET observed_at = to_timestamp($1::bigint), stale_at = to_timestamp($1::bigint + 60)`, second)
}

// intervals lists the usage intervals of an allocation (from, to, reason), relative to one hour
// before now, with the fault credits.
func (b *bundle) intervals(a allocation.Allocation, now int64) string {
	b.t.Helper()
	var text string
	err := b.DB.QueryRow(b.t.Context(), `SELECT coalesce(string_agg(format('%s %s..%s %s', opened_by, start_s - $2, coalesce((end_s - $2)::text, ''), coalesce(closed_by, 'open')), ', ' ORDER BY start_s), '')
		FROM usage_records WHERE allocation_id = $1`, a.ID, now).Scan(&text)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

func (b *bundle) credits(now int64) string {
	b.t.Helper()
	var text string
	err := b.DB.QueryRow(b.t.Context(), `SELECT coalesce(string_agg(format('%s..%s %s %s', c.from_s - $1, c.to_s - $1, c.reason, e.amount_minor), ', ' ORDER BY c.from_s), '')
		FROM usage_credits c LEFT JOIN ledger_entries e ON e.transfer_id = c.transfer_id AND e.amount_minor > 0`, now).Scan(&text)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// INV-33, BILL-10: charging pauses while a node's reports are stale. The charge since its last
// report is credited, and the next report starts a new interval.
func TestINV33SilencePausesTheMeter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, clock, now := b.used()

	b.silentSince(now - 120)
	b.done(jobs.CheckMeters{})
	if got := b.intervals(a, now); got != "observed_ready -3600.. open" {
		t.Errorf("silent for less than is too long: %s", got)
	}

	b.silentSince(now - 360)
	b.deps.Began = justNow()
	b.done(jobs.CheckMeters{})
	if got := b.intervals(a, now); got != "observed_ready -3600.. open" {
		t.Errorf("stale while no server ran counts: %s", got)
	}
	b.deps.Began = time.Time{}
	b.done(jobs.CheckMeters{})
	b.done(jobs.CheckMeters{})
	if got, want := b.intervals(a, now), "observed_ready -3600..0 observation_stale"; got != want {
		t.Errorf("silent: %s, want %s", got, want)
	}
	given := b.credits(now) // 2 GPUs × 2.50 € × 6 min
	if given != "-360..0 observation_stale 50" {
		t.Errorf("credited: %s", given)
	}
	if got, err := b.Allocations.Get(t.Context(), b.Caller, a.ID); err != nil || got.State != allocation.Active || got.Paused != "observation_stale" {
		t.Errorf("%s, paused by %q, %v", got.State, got.Paused, err)
	}
	if n := b.count(`SELECT count(*) FROM usage_records WHERE closed_observation->>'node_id' = $1 AND closed_observation->>'fence' = '1'
		AND opened_observation->>'sequence' = '1' AND (closed_observation->>'seen_at')::timestamptz = (SELECT observed_at FROM observed_nodes)`, b.node); n != 1 {
		t.Error("the interval does not name its observation")
	}

	// It speaks again, but not well, and then well.
	b.set(clock, now+100)
	b.reports(b.node, b.is(a, protocol.Broken))
	b.done(jobs.CheckMeters{})
	b.reports(b.node, b.is(a, protocol.Ready))
	b.done(jobs.CheckMeters{})
	b.set(clock, now+200)
	b.done(jobs.CheckMeters{})
	if got, want := b.intervals(a, now), "observed_ready -3600..0 observation_stale, observed_again 100.. open"; got != want {
		t.Errorf("observed again: %s, want %s", got, want)
	}
	if got, err := b.Allocations.Get(t.Context(), b.Caller, a.ID); err != nil || got.Paused != "" {
		t.Errorf("paused by %q, %v", got.Paused, err)
	}
	if b.credits(now) != given {
		t.Errorf("credited again: %s", b.credits(now))
	}
}

// An allocation on an unhealthy device or node is not charged from the report on.
func TestINV33SicknessPausesTheMeter(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(*protocol.Report){
		"a device of it": func(r *protocol.Report) {
			for i := range r.Inventory.GPUs {
				r.Inventory.GPUs[i].Health = protocol.Unhealthy
			}
		},
		"its node, of which devices are gone": func(r *protocol.Report) { r.Inventory.GPUs = r.Inventory.GPUs[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a, clock, now := b.used()
			sees := func(change func(*protocol.Report)) {
				b.Do(t, func(tx pgx.Tx) error {
					r := allocationtest.Report(b.node, 4)
					b.sequence++
					r.Sequence, r.Allocations = b.sequence, []protocol.AllocationReport{b.is(a, protocol.Ready)}
					change(&r)
					if _, err := b.deps.Observed.Report(t.Context(), tx, b.node, r, time.Minute); err != nil {
						return err
					}
					return b.Inventory.ApplyReport(t.Context(), tx, b.node, r)
				})
			}
			sees(report)
			b.set(clock, now+20)
			b.done(jobs.CheckMeters{})
			b.done(jobs.CheckMeters{})
			if got, want := b.intervals(a, now), "observed_ready -3600..20 node_unhealthy"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := b.count(`SELECT to_s - from_s FROM usage_credits WHERE reason = 'node_unhealthy'`); got < 1 || got > 20 {
				t.Errorf("%d seconds were credited", got)
			}
			sees(func(*protocol.Report) {})
			b.set(clock, now+50)
			b.done(jobs.CheckMeters{})
			if got, want := b.intervals(a, now), "observed_ready -3600..20 node_unhealthy, observed_again 50.. open"; got != want {
				t.Errorf("well again: %s, want %s", got, want)
			}
		})
	}
}

// A release during a pause ends it: nothing is open, and nothing resumes.
func TestReleaseDuringAPause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, _, now := b.used()
	b.silentSince(now - 600)
	b.done(jobs.CheckMeters{})
	ready := b.is(a, protocol.Ready)
	if _, err := b.Allocations.Release(t.Context(), b.Caller, identity.Key{}, a.ID, nil); err != nil {
		t.Fatal(err)
	}
	b.reports(b.node, ready)
	b.done(jobs.CheckMeters{})
	if got, want := b.intervals(a, now), "observed_ready -3600..0 observation_stale"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Without an open interval, as when the pause begins in the second of the start, there is nothing
// to credit.
func TestPauseInTheFirstSecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, clock, now := b.used()
	b.set(clock, now-3600)
	b.silentSince(now - 3601)
	b.done(jobs.CheckMeters{})
	if got := b.intervals(a, now); got != "observed_ready -3600..-3600 observation_stale" || b.credits(now) != "" {
		t.Errorf("%s, credited %s", got, b.credits(now))
	}
}

const priced = `{"displayName":"H100","gpuModel":"H100","memoryGiB":80,"isolation":"host_user","maxGPUs":8,"active":true,"price":{"currency":%q,"amountMinor":%d}}`

// INV-34: a price change splits the open intervals at that second. Past usage has the old price,
// and the displayed price is charged from then on.
func TestINV34APriceChangeSplitsTheInterval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, clock, now := b.used()
	waiting := b.Request(t, 1)
	gone := b.Releasing(t, 1)
	prices := func() string {
		var text string
		err := b.DB.QueryRow(t.Context(), `SELECT string_agg(price_minor::text, ' ' ORDER BY start_s) FROM usage_records WHERE allocation_id = $1`, a.ID).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	b.twice(b.declare(desired.KindSKU, allocationtest.SKU, fmt.Sprintf(priced, "EUR", 300)))
	if got, want := b.intervals(a, now), "observed_ready -3600..0 price_changed, price_changed 0.. open"; got != want || prices() != "250 300" {
		t.Errorf("%s at %s, want %s", got, prices(), want)
	}
	for id, want := range map[ids.Allocation]int64{a.ID: 300, waiting.ID: 300, gone.ID: 250} {
		if got, err := b.Allocations.Get(t.Context(), b.Caller, id); err != nil || int64(got.PriceMinor) != want {
			t.Errorf("%s costs %d, want %d: %v", got.State, got.PriceMinor, want, err)
		}
	}
	b.set(clock, now+3600)
	b.done(money.Accrue{})
	var charged int64
	if err := b.DB.QueryRow(t.Context(), `SELECT -sum(amount_minor) FROM ledger_entries WHERE allocation_id = $1`, a.ID).Scan(&charged); err != nil || charged != 2*250+2*300 {
		t.Errorf("charged %d, %v", charged, err)
	}
	b.done(b.declare(desired.KindSKU, allocationtest.SKU, fmt.Sprintf(priced, "USD", 900)))
	if got := b.intervals(a, now); got != "observed_ready -3600..0 price_changed, price_changed 0.. open" {
		t.Errorf("a price in another currency: %s", got)
	}
}

// A request that read the price just before it changed begins to cost at the price
// of the day on which it begins to cost.
func TestAPriceThatChangedDuringTheRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	b.done(b.declare(desired.KindSKU, allocationtest.SKU, fmt.Sprintf(priced, "EUR", 300)))
	b.exec(`UPDATE allocations SET price_minor = 250 WHERE id = $1`, a.ID) // not yet committed then
	b.reports(b.node, b.is(a, protocol.Ready))
	b.done(record(b, a, plan.NodeReady))
	if n := b.count(`SELECT count(*) FROM usage_records r JOIN allocations a ON a.id = r.allocation_id WHERE r.price_minor = 300 AND a.price_minor = 300`); n != 1 {
		t.Error("it begins at the old price")
	}
}
