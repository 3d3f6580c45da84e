package allocation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// intervals counts the open and the closed ones.
func intervals(t *testing.T, w *allocationtest.Fixture, id ids.Allocation) (open, closed int) {
	t.Helper()
	must(t, w.DB.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE end_s IS NULL), count(end_s) FROM usage_records WHERE allocation_id = $1`, id).Scan(&open, &closed))
	return open, closed
}

// slots returns the status and reason of each slot that the allocation ever had.
func slots(t *testing.T, w *allocationtest.Fixture, id ids.Allocation) []string {
	t.Helper()
	rows, err := w.DB.Query(t.Context(), `SELECT trim(s.status || ' ' || s.reason) FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1 ORDER BY 1`, id)
	must(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return list
}

func dueReason(t *testing.T, w *allocationtest.Fixture, id ids.Allocation) string {
	t.Helper()
	return queryOne[string](t, w, `SELECT coalesce(max(reason), '') FROM reconcile_due WHERE object_id = $1`, id)
}

// INV-33: an allocation is charged from the report that it is ready until the request of its release,
// and at no other time. Each step is repeated any number of times.
func TestINV33OneLife(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 2)
	s := w.Allocations
	a := w.Request(t, 2)
	if open, closed := intervals(t, w, a.ID); open+closed != 0 {
		t.Error("it costs before it is active")
	}
	ready := func(tx pgx.Tx, a allocation.Allocation) error {
		return s.NodeReady(t.Context(), tx, a, metering.Observation{})
	}
	a = w.Move(t, a.ID, ready)
	again := pgtest.Diff(t, w.DB)
	a = w.Move(t, a.ID, ready)
	if open, closed := intervals(t, w, a.ID); open != 1 || closed != 0 || a.State != allocation.Active || a.ActiveAt == nil || again() != "" {
		t.Errorf("ready twice: %s, %d open, %d closed\n%s", a.State, open, closed, again())
	}

	before := w.Declared(t, a.ID)
	a, err := s.Release(t.Context(), w.Operator, identity.Key{}, a.ID, nil)
	must(t, err)
	after := w.Declared(t, a.ID)
	if open, closed := intervals(t, w, a.ID); open != 0 || closed != 1 {
		t.Errorf("released: %d open, %d closed", open, closed)
	}
	if after.Fence != before.Fence+1 || after.Generation != before.Generation+1 || after.DeletedAt == nil || !strings.Contains(string(after.Spec), `"released": true`) {
		t.Errorf("the declaration went from %+v to %+v", before, after)
	}
	if got := slots(t, w, a.ID); !slices.Equal(got, []string{"dirty", "dirty"}) {
		t.Errorf("slots of a released allocation are %v", got)
	}

	gone := func(tx pgx.Tx, a allocation.Allocation) error {
		return s.SlotsGone(t.Context(), tx, a, allocationtest.Proof(after.Fence, allocationtest.GPU(node, 0), allocationtest.GPU(node, 1)))
	}
	a = w.Move(t, a.ID, gone)
	again = pgtest.Diff(t, w.DB)
	w.Move(t, a.ID, gone)
	if got := slots(t, w, a.ID); a.State != allocation.Released || !slices.Equal(got, []string{"clean", "clean"}) || again() != "" {
		t.Errorf("gone twice: %s, slots %v\n%s", a.State, got, again())
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM desired_objects WHERE uid = $1`, a.ID); n != 0 {
		t.Error("the desired object of node what is gone is still there")
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM slot_claims WHERE upper_inf(period)`); n != 0 {
		t.Error("claims are open")
	}
	actors := queryOne[string](t, w, `SELECT string_agg(action || ' ' || actor || ' ' || correlation_id, ', ' ORDER BY at) FROM audit_logs WHERE actor <> 'system:up'`)
	if want := "allocation.create " + w.Caller.Actor() + " corr-1, allocation.release " + w.Operator.Actor() + " corr-2"; actors != want {
		t.Errorf("audit: %s\nwant   %s", actors, want)
	}
	steps, err := s.Timeline(t.Context(), w.Caller, a.ID)
	must(t, err)
	var told []string
	for _, step := range steps {
		told = append(told, string(step.To))
	}
	if got := strings.Join(told, " "); got != "requested provisioning active releasing released" {
		t.Errorf("history: %s", got)
	}
}

// INV-03: no state frees a slot. The slots of a failed allocation are not sold until the node has proved
// them clean, and the proof is then enough.
func TestINV03FailedIsNotClean(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 1)
	giveUp := func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.Exhaust(t.Context(), tx, a, 3, "no key fits")
	}
	a := w.Move(t, w.Request(t, 1).ID, giveUp)
	if got := slots(t, w, a.ID); a.State != allocation.Failed || a.Reason != "provision_failed" || a.Message != "no key fits" || !slices.Equal(got, []string{"dirty"}) {
		t.Errorf("%s (%s: %s), slots %v", a.State, a.Reason, a.Message, got)
	}
	if open, closed := intervals(t, w, a.ID); open+closed != 0 {
		t.Error("what failed costs")
	}
	if _, err := w.Server().Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1}); errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("a dirty slot was sold: %v", err)
	}
	fence := w.Declared(t, a.ID).Fence
	a = w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(fence, allocationtest.GPU(node, 0)))
	})
	if got := slots(t, w, a.ID); a.State != allocation.Failed || !slices.Equal(got, []string{"clean"}) {
		t.Errorf("after the proof %s, slots %v", a.State, got)
	}
	if _, err := w.Server().Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1}); err != nil {
		t.Errorf("a clean slot is not sold: %v", err)
	}
}

// An exhausted release costs nothing, and its slots are not sold. A late proof still heals it, and so
// does another attempt.
func TestReleaseFailed(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 2)
	giveUp := func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.Exhaust(t.Context(), tx, a, 5, "a process does not end")
	}
	a := w.Move(t, w.Releasing(t, 1).ID, giveUp)
	if got := slots(t, w, a.ID); a.State != allocation.ReleaseFailed || a.Reason != allocation.ReasonUser || !slices.Equal(got, []string{"quarantined release failed"}) {
		t.Errorf("%s (%s), slots %v", a.State, a.Reason, got)
	}
	if open, closed := intervals(t, w, a.ID); open != 0 || closed != 1 {
		t.Errorf("%d open, %d closed", open, closed)
	}
	fence := w.Declared(t, a.ID).Fence
	a, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil)
	must(t, err)
	if again := w.Declared(t, a.ID).Fence; again != fence+1 {
		t.Errorf("tried again at fence %d after %d", again, fence)
	}
	w.Move(t, a.ID, giveUp)
	a = w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(fence+1, allocationtest.GPU(node, 0)))
	})
	if got := slots(t, w, a.ID); a.State != allocation.Released || !slices.Equal(got, []string{"clean"}) {
		t.Errorf("healed: %s, slots %v", a.State, got)
	}
}

// The end of a lease and of the money release what is active, and nothing else.
func TestExpireAndDeplete(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 4)
	waiting, leased, a, b := w.Request(t, 1), w.Active(t, 1), w.Active(t, 1), w.Active(t, 1)
	expire := func(tx pgx.Tx, a allocation.Allocation) error { return w.Allocations.Expire(t.Context(), tx, a) }
	if got := w.Move(t, leased.ID, expire); got.State != allocation.Releasing || got.Reason != allocation.ReasonTTL || dueReason(t, w, got.ID) == "" {
		t.Errorf("%s (%s)", got.State, got.Reason)
	}
	if got := w.Move(t, waiting.ID, expire); got.State != allocation.Requested {
		t.Errorf("a waiting one expired to %s", got.State)
	}
	var released []string
	for range 2 {
		w.Do(t, func(tx pgx.Tx) error {
			more, err := w.Allocations.Deplete(t.Context(), tx, w.Caller.Tenant)
			released = append(released, more...)
			return err
		})
	}
	want := []string{waiting.ID.String(), a.ID.String(), b.ID.String()}
	slices.Sort(want)
	if slices.Sort(released); !slices.Equal(released, want) {
		t.Errorf("released %v, want %v", released, want)
	}
	if got, err := w.Allocations.Get(t.Context(), w.Caller, a.ID); err != nil || got.State != allocation.Releasing || got.Reason != allocation.ReasonDepleted || got.CorrelationID != "corr-1" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM outbox_events WHERE subject = 'provisioning.force_release_requested'`); n != 3 {
		t.Errorf("%d were reported as forced, want 3", n)
	}
	by := queryOne[string](t, w, `SELECT DISTINCT payload->>'requested_by' FROM outbox_events WHERE subject = 'provisioning.releasing.requested'`)
	if by != "system:billing" {
		t.Errorf("requested by %s", by)
	}
}

// INV-06 for a release: the second of two at once learns that the first is at
// work, not that it is too late.
func TestINV06ReleaseOnce(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	a := w.Active(t, 1)
	key := identity.Key{Principal: w.Caller.Principal(), Method: "DELETE", Route: "/allocations", Key: "k"}
	won, failures := everyone(16, func(int) error {
		_, err := w.Allocations.Release(t.Context(), w.Caller, key, a.ID, func(a allocation.Allocation) identity.Reply {
			return identity.Reply{Status: 202, Body: []byte(a.State)}
		})
		return err
	})
	if won != 1 || failures[errs.IdempotencyInFlight] != 15 {
		t.Errorf("%d won, the others %v", won, failures)
	}
	if first, found, err := w.Allocations.Identity.Replay(t.Context(), key); !found || err != nil || string(first.Body) != "releasing" {
		t.Errorf("replayed %+v, %v, %v", first, found, err)
	}
}

// The list runs from the newest, page by page, without gap or repetition.
func TestListPages(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 16)
	var want []ids.Allocation
	for range 5 {
		want = append(want, w.Request(t, 1).ID)
	}
	slices.Reverse(want)
	var got []ids.Allocation
	f := allocation.Filter{Limit: 2}
	for {
		page, err := w.Allocations.List(t.Context(), w.Caller, f)
		must(t, err)
		for _, a := range page {
			got = append(got, a.ID)
			f.After = allocation.Sorts.PlaceOf("", a)
		}
		if len(page) < f.Limit {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages %v\nwant  %v", got, want)
	}
	for name, c := range map[string]struct {
		filter allocation.Filter
		n      int
	}{
		"status": {allocation.Filter{Status: "requested"}, 5}, "other status": {allocation.Filter{Status: "active"}, 0},
		"sku": {allocation.Filter{SKU: allocationtest.SKU}, 5}, "other sku": {allocation.Filter{SKU: "x"}, 0}, "other name": {allocation.Filter{Name: "x"}, 0},
	} {
		c.filter.Limit = 10
		if page, err := w.Allocations.List(t.Context(), w.Caller, c.filter); err != nil || len(page) != c.n {
			t.Errorf("%s: %d, %v", name, len(page), err)
		}
	}
}

// A login uid is unique, whichever server assigns it, and the desired object contains everything that
// the node needs.
func TestEachHasItsOwnAccount(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	other := w.Server()
	seen := map[int]bool{}
	for i := range 8 {
		server := w.Allocations
		if i%2 == 1 {
			server = other
		}
		a, err := server.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, TTL: time.Hour})
		must(t, err)
		if seen[a.HostUID] || a.HostUID < 200000 || a.ExpiresAt == nil {
			t.Errorf("uid %d, until %v", a.HostUID, a.ExpiresAt)
		}
		seen[a.HostUID] = true
		if o := w.Declared(t, a.ID); o.Source.Owner != desired.OwnerAPI || o.Fence != 1 || o.Generation != 1 {
			t.Errorf("declared %+v", o)
		}
	}
}

// TestListsSort reads each list in pages of one, forwards and backwards. An allocation without an end is the last to
// expire.
func TestListsSort(t *testing.T) {
	t.Parallel()

	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	var made []ids.Allocation
	for i, name := range []string{"b", "c", "a"} {
		a := w.Request(t, 1)
		made = append(made, a.ID)
		_, err := w.DB.Exec(t.Context(), `UPDATE allocations SET name = $2, created_at = $3, expires_at = $4 WHERE id = $1`,
			a.ID, name, time.Unix(int64(i), 0), []any{nil, time.Unix(9e9, 0), time.Unix(8e9, 0)}[i])
		must(t, err)
	}
	b, c, a := made[0], made[1], made[2]
	for sort, want := range map[string][]ids.Allocation{
		"": {a, c, b}, "created_at": {b, c, a}, "name": {a, b, c}, "expires_at": {a, c, b},
	} {
		for _, reverse := range []bool{false, true} {
			f := allocation.Filter{Limit: 1, Sort: sort}
			if reverse && sort != "" {
				f.Sort, want = "-"+sort, slices.Clone(want)
				slices.Reverse(want)
			}
			var got []ids.Allocation
			for {
				page, err := w.Allocations.List(t.Context(), w.Caller, f)
				must(t, err)
				if len(page) == 0 {
					break
				}
				got = append(got, page[0].ID)
				f.After = allocation.Sorts.PlaceOf(f.Sort, page[0])
			}
			if !slices.Equal(got, want) {
				t.Errorf("sorted by %q: %v, want %v", f.Sort, got, want)
			}
		}
	}
	for part, n := range map[string]int{"A": 1, "%": 0, "": 3} {
		if page, err := w.Allocations.List(t.Context(), w.Caller, allocation.Filter{Part: part, Limit: 10}); err != nil || len(page) != n {
			t.Errorf("part %q of the name: %d, %v", part, len(page), err)
		}
	}
}
