package jobs_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// INV-72: a tenant whose part of the report cannot be read pays what it pays when its part is read, whatever
// happens to the node in between: neither a pause nor a resumption depends on it. Otherwise a tenant that hides
// from the inspection of its node would use GPUs without payment. Two allocations of one node have the same random
// history, and one of them is unread at random.
func TestINV72AnUnreadPartChangesNoBill(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		b := setup(t)
		r := rand.New(rand.NewPCG(seed, 14))
		hostile, clock, now := b.used()
		twin := b.Request(t, 2)
		b.set(clock, now-3600)
		b.reports(b.node, b.is(hostile, protocol.Ready), b.is(twin, protocol.Ready))
		b.done(record(b, twin, plan.NodeReady))
		var story []string
		for step := range int64(16) {
			b.set(clock, now+20*step)
			what := []string{"read", "unread", "unread", "unread of an incomplete report", "silence", "server restarts"}[r.IntN(6)]
			story = append(story, what)
			switch what {
			case "silence":
				b.silentSince(now - 360)
			case "server restarts":
				b.deps.Began = justNow()
			default:
				b.hears(what, hostile, twin)
			}
			b.done(jobs.CheckMeters{})
			b.deps.Began = time.Time{}
			if own, other := b.intervals(hostile, now), b.intervals(twin, now); own != other {
				t.Fatalf("seed %d: %s\nthe unread one has %s\nthe other has    %s", seed, strings.Join(story, ", "), own, other)
			}
		}
		b.hears("unread", hostile, twin)
		b.done(jobs.CheckMeters{})
		if got := b.intervals(hostile, now); !strings.HasSuffix(got, "open") {
			t.Errorf("seed %d: the node reports, and its unread tenant is not charged: %s", seed, got)
		}
		b.set(clock, now+3600)
		b.done(money.Accrue{})
		if n := b.count(`SELECT count(DISTINCT amount) FROM (SELECT sum(amount_minor) AS amount FROM ledger_entries
			WHERE allocation_id IN ($1, $2) AND amount_minor < 0 GROUP BY allocation_id) AS charged`, hostile.ID, twin.ID); n != 1 {
			t.Errorf("seed %d: the two were charged different amounts", seed)
		}
	}
}

// hears stores a report of both allocations. What names how the first one is read.
func (b *bundle) hears(what string, hostile, twin allocation.Allocation) {
	b.t.Helper()
	b.Do(b.t, func(tx pgx.Tx) error {
		r := allocationtest.Report(b.node, 4)
		b.sequence++
		r.Sequence = b.sequence
		own := b.is(hostile, protocol.Ready)
		if strings.HasPrefix(what, "unread") {
			own.Phase, own.Unread = protocol.Working, "it has more files than the limit"
		}
		r.Allocations = []protocol.AllocationReport{own, b.is(twin, protocol.Ready)}
		if strings.HasSuffix(what, "incomplete report") {
			r.Complete, r.Missing = false, []string{"context deadline exceeded"}
		}
		_, err := b.deps.Observed.Report(b.t.Context(), tx, b.node, r, time.Minute)
		return err
	})
}
