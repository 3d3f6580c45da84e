package allocation_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
)

// queued requests n GPUs that are not available.
func queued(t *testing.T, w *allocationtest.Fixture, n int) allocation.Allocation {
	t.Helper()
	w.Limits.QueueWait = 24 * time.Hour
	a, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: n, Queue: true, TTL: time.Hour})
	must(t, err)
	if !a.Queued() || a.QueueUntil == nil {
		t.Fatalf("%+v does not wait", a)
	}
	return a
}

// vacate releases an allocation, and reports its proof.
func vacate(t *testing.T, w *allocationtest.Fixture, a allocation.Allocation) {
	t.Helper()
	_, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil)
	must(t, err)
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		gpus, err := w.Inventory.GPUsOf(t.Context(), tx, a.ID)
		if err != nil {
			return err
		}
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(9, gpus...))
	})
}

func place(t *testing.T, w *allocationtest.Fixture, want int) {
	t.Helper()
	w.Inventory.Refresh(allocation.Allocation{SKU: allocationtest.SKU}.Wanted()) // another process has freed it
	if placed, err := w.Allocations.PlaceQueued(t.Context(), nil); err != nil || placed != want {
		t.Errorf("placed %d, want %d: %v", placed, want, err)
	}
}

func read(t *testing.T, w *allocationtest.Fixture, id ids.Allocation) allocation.Allocation {
	t.Helper()
	a, err := w.Allocations.Get(t.Context(), w.Caller, id)
	must(t, err)
	return a
}

func TestQueueServesTheOldestRequestFirst(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "n7", 2)
	held := w.Active(t, 2)
	first, second := queued(t, w, 2), queued(t, w, 1)
	place(t, w, 0)
	vacate(t, w, held)
	place(t, w, 1)
	a := read(t, w, first.ID)
	if a.Node != node || a.Queued() || a.QueueUntil != nil || a.State != allocation.Requested {
		t.Errorf("the first is %+v", a)
	}
	// The TTL is the requested one, from the placement on.
	if got := a.ExpiresAt.Sub(a.StatusAt); got != time.Hour || !a.StatusAt.After(first.StatusAt) {
		t.Errorf("the lease lasts %s from %s", got, a.StatusAt)
	}
	if w.Declared(t, first.ID).Generation != 1 || !read(t, w, second.ID).Queued() {
		t.Error("the second did not wait for the first")
	}
}

// Slots that the first in the queue cannot use go to who can.
func TestQueueLetsSmallerOnesPass(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "a", 1)
	held := w.Active(t, 1)
	big, small := queued(t, w, 4), queued(t, w, 1)
	vacate(t, w, held)
	place(t, w, 1)
	if !read(t, w, big.ID).Queued() || read(t, w, small.ID).Queued() {
		t.Error("the free slot was not used")
	}
}

// INV-01, INV-16: two workers at once place each waiter once, and an idle queue
// writes nothing.
func TestINV01QueueTwoWorkers(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	for range 8 {
		queued(t, w, 1)
	}
	w.Node(t, "a", 4)
	servers := []*allocation.Service{w.Allocations, w.Server()}
	everyone(4, func(i int) error { _, err := servers[i%2].PlaceQueued(t.Context(), nil); return err })
	for range 3 { // a claim that was lost to the other worker is tried again
		w.Inventory.Refresh(allocation.Allocation{SKU: allocationtest.SKU}.Wanted())
		_, err := w.Allocations.PlaceQueued(t.Context(), nil)
		must(t, err)
	}
	var claims, declared, waiting int
	must(t, w.DB.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM slot_claims), (SELECT count(*) FROM desired_objects WHERE kind = 'Allocation'),
		(SELECT count(*) FROM allocations WHERE node_id IS NULL)`).Scan(&claims, &declared, &waiting))
	if claims != 4 || declared != 4 || waiting != 4 {
		t.Errorf("%d claims, %d declared, %d wait", claims, declared, waiting)
	}
	diff := pgtest.Diff(t, w.DB)
	place(t, w, 0)
	if got := diff(); got != "" {
		t.Errorf("a pass without a placement writes %s", got)
	}
}

func TestQueueEnds(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	withdrawn, late, broke := queued(t, w, 1), queued(t, w, 1), queued(t, w, 1)
	if a, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, withdrawn.ID, nil); err != nil || a.State != allocation.Released {
		t.Errorf("a withdrawn one is %s: %v", a.State, err)
	}
	_, err := w.DB.Exec(t.Context(), `UPDATE allocations SET queue_until = now() - interval '1 second' WHERE id = $1`, late.ID)
	must(t, err)
	place(t, w, 0)
	if a := read(t, w, late.ID); a.State != allocation.Failed || a.Message != "no capacity became free in time" {
		t.Errorf("one that waited too long is %s: %s", a.State, a.Message)
	}
	w.Do(t, func(tx pgx.Tx) error { _, err := w.Allocations.Deplete(t.Context(), tx, w.Caller.Tenant); return err })
	if a := read(t, w, broke.ID); a.State != allocation.Released || a.Reason != allocation.ReasonDepleted {
		t.Errorf("without money it is %s: %s", a.State, a.Reason)
	}
	w.Node(t, "a", 4)
	place(t, w, 0)
}

func TestQueueIsAPolicy(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Queue: true})
	if errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("got %v", err)
	}
	w.Limits.QueueWait, w.Limits.PerUser = time.Hour, 1
	queued(t, w, 1)
	_, err = w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Queue: true})
	if errs.CodeOf(err) != errs.ConcurrencyLimitReached {
		t.Errorf("a waiting one does not count against the cap: %v", err)
	}
}

func TestPendingSaysWhatWouldHelp(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	n7 := w.Node(t, "n7", 1)
	w.Node(t, "n8", 1)
	_, err := w.DB.Exec(t.Context(), `UPDATE nodes SET spec = spec || '{"cordoned": true}' WHERE id = $1`, n7)
	must(t, err)
	first, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: "train", TTL: 2 * time.Hour})
	must(t, err)
	queued(t, w, 1)
	a := queued(t, w, 1)
	for name, named := range map[string]bool{"node n7": true, "a node": false} {
		p, err := (&manage.Service{Service: w.Allocations}).Pending(t.Context(), a, named)
		must(t, err)
		ends := "fits after " + first.ExpiresAt.UTC().Format("15:04") + " when lease train ends"
		if first.ExpiresAt.UTC().Day() != time.Now().UTC().Day() {
			ends = "fits after " + first.ExpiresAt.UTC().Format("2006-01-02 15:04") + " when lease train ends"
		}
		if p.Position != 2 || len(p.Fits) != 2 || p.Fits[0].Text != ends || !p.Fits[0].At.Equal(*first.ExpiresAt) || p.Fits[1].Text != "fits if "+name+" is uncordoned" {
			t.Errorf("got %+v", p)
		}
	}
}
