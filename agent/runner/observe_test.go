package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// past writes records of released allocations, as many tenants leave them, and returns the last.
func (b *bundle) past(n int) (last ids.Allocation) {
	b.t.Helper()
	first := ids.New[ids.Allocation]()
	b.do(b.provision(first, 1, b.gpus[0]))
	b.do(b.revoke(first, 2, b.gpus[0]))
	record, _ := b.Journal.Get(first)
	for i := range record.Tasks {
		record.Tasks[i].Acked = true
	}
	for range n {
		record.Allocation = ids.New[ids.Allocation]()
		if err := b.Journal.Put(record); err != nil {
			b.t.Fatal(err)
		}
	}
	return record.Allocation
}

// A tenant that creates and releases allocations for hours must not make the report of the node larger than the control
// plane accepts.
func TestAReportHasTheLastReleasedAllocationsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	last := b.past(runner.MostGone + 10)
	count := func() int {
		t.Helper()
		state, err := b.host.Inspect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return len(b.Observe(state))
	}
	if n := count(); n != runner.MostGone {
		t.Errorf("the report has %d allocations", n)
	}
	if r := b.reportOf(last); r.Phase != protocol.Gone || r.Proof == nil {
		t.Errorf("the last released allocation is %+v", r)
	}
	b.edit(func(h *sim.Host) { h.Files["/tmp/left"] = 200001 })
	if n := count(); n != runner.MostGone+11 {
		t.Errorf("of the allocations that left something, the report has %d", n)
	}
}

// Of more records than the journal may have, the oldest stay until their tasks have expired for an hour.
func TestTheJournalOfManyReleasesIsBounded(t *testing.T) { //nolint:paralleltest // it sets a limit
	defer runner.SetMostRecords(50)()
	b := setup(t)
	last := b.past(80)
	tidy := func(want int) {
		t.Helper()
		if err := b.DeleteOldRecords(); err != nil {
			t.Fatal(err)
		}
		if n := len(b.Journal.All()); n != want {
			t.Errorf("at %s the journal has %d records, want %d", b.now, n, want)
		}
	}
	tidy(81)
	b.now = b.now.Add(time.Hour + 11*time.Minute)
	tidy(51) // the result of the first release is not acknowledged
	if _, ok := b.Journal.Get(last); !ok {
		t.Error("the newest record is deleted")
	}
	b.now = b.now.Add(48 * time.Hour)
	tidy(1)
}
