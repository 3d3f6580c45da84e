package manage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/slots"
)

const rich = 10_000_000

func managed(t *testing.T) (*allocationtest.Fixture, *manage.Service) {
	t.Helper()
	w := allocationtest.New(t, rich)
	w.Inventory.Identity = w.Allocations.Identity
	w.Inventory.Inspections = func() int { return 2 }
	w.Allocations.Identity.Policy = func(identity.Caller) policies.View {
		return policies.Snapshot{}.For().With(string(policies.AuthStepUpMinutes), policies.Platform, int64(0))
	}
	return w, &manage.Service{Service: w.Allocations, ReleaseDeadline: func() time.Duration { return 15 * time.Minute }}
}

func by(c identity.Caller) identity.Change[allocation.Allocation] {
	return identity.Change[allocation.Allocation]{Caller: c}
}

func failed(t *testing.T, w *allocationtest.Fixture, n int) allocation.Allocation {
	t.Helper()
	return w.Move(t, w.Releasing(t, n).ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.Exhaust(t.Context(), tx, a, 3, "the node rejects")
	})
}

// AT-032: a failed release is forced, and ends in released by the proof of the node.
func TestAT032AForcedReleaseEndsByAProof(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	node := w.Node(t, "node-1", 1)
	a := failed(t, w, 1)
	got, err := s.ForceRelease(t.Context(), by(w.Operator), a.ID, "the disk is back")
	if err != nil || got.State != allocation.Releasing || got.Reason != allocation.ReasonAdmin {
		t.Fatalf("%s (%s), %v", got.State, got.Reason, err)
	}
	if _, err := s.ForceRelease(t.Context(), by(w.Operator), a.ID, "again"); errs.CodeOf(err) != errs.ForceReleaseNotAllowed {
		t.Errorf("a release that is not overdue: %v", err)
	}
	history, err := s.Timeline(t.Context(), w.Caller, a.ID)
	last := history[len(history)-1]
	if err != nil || last.Actor != w.Operator.Actor() || last.Reason != allocation.ReasonAdmin || last.Message != "the disk is back" {
		t.Errorf("the timeline ends with %+v, %v", last, err)
	}
	if first := history[0]; first.Actor != w.Caller.Actor() {
		t.Errorf("the timeline begins with the actor %q", first.Actor)
	}
	done := w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return s.SlotsGone(t.Context(), tx, a, allocationtest.Proof(3, allocationtest.GPU(node, 0)))
	})
	if done.State != allocation.Released {
		t.Errorf("after the proof: %s", done.State)
	}
	var events, audited int
	if err := w.DB.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE subject = 'provisioning.force_release_requested' AND payload->>'reason' = 'admin'`).Scan(&events); err != nil || events != 1 {
		t.Errorf("%d events of a forced release, %v", events, err)
	}
	if err := w.DB.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'allocation.force_release' AND org_id = $1`, a.Tenant).Scan(&audited); err != nil || audited != 1 {
		t.Errorf("%d audit rows, %v", audited, err)
	}
}

// An operator cannot release a tenant's allocation whose node works. If the node's report is stale, the release is
// possible with the reason node_lost, and so is one that has exceeded its deadline.
func TestOnlyWhatIsLostOrOverdueIsForced(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	node := w.Node(t, "node-1", 3)
	a, late := w.Active(t, 1), w.Releasing(t, 1)
	if _, err := s.ForceRelease(t.Context(), by(w.Operator), a.ID, "because"); errs.CodeOf(err) != errs.ForceReleaseNotAllowed {
		t.Errorf("an active allocation on a node that reports: %v", err)
	}
	w.Do(t, func(tx pgx.Tx) error { return w.Inventory.Silent(t.Context(), tx, node, true) })
	if got, err := s.ForceRelease(t.Context(), by(w.Operator), a.ID, "the node burnt"); err != nil || got.Reason != allocation.ReasonNodeLost || got.State != allocation.Releasing {
		t.Errorf("%s (%s), %v", got.State, got.Reason, err)
	}
	s.ReleaseDeadline = func() time.Duration { return 0 }
	if got, err := s.ForceRelease(t.Context(), by(w.Operator), late.ID, "stuck"); err != nil || got.Reason != allocation.ReasonAdmin || got.State != allocation.Releasing {
		t.Errorf("an overdue release: %s (%s), %v", got.State, got.Reason, err)
	}
	if _, err := s.ForceRelease(t.Context(), by(w.Operator), ids.New[ids.Allocation](), "x"); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a random id: %v", err)
	}
}

// The list of operators contains every tenant, and its filters narrow it.
func TestAllTenantsAreListed(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	one, two := w.Node(t, "node-1", 1), w.Node(t, "node-2", 1)
	a, b := w.Active(t, 1), w.Request(t, 1)
	for rule, c := range map[string]struct {
		f    manage.Filter
		want []ids.Allocation
	}{
		"newest first":        {manage.Filter{}, []ids.Allocation{b.ID, a.ID}},
		"a page":              {manage.Filter{Limit: 1}, []ids.Allocation{b.ID}},
		"the page after":      {manage.Filter{After: allocation.Sorts.PlaceOf("", b)}, []ids.Allocation{a.ID}},
		"by state":            {manage.Filter{Status: "active"}, []ids.Allocation{a.ID}},
		"by SKU":              {manage.Filter{SKU: "other"}, nil},
		"by tenant":           {manage.Filter{Tenant: a.Tenant}, []ids.Allocation{b.ID, a.ID}},
		"by another tenant":   {manage.Filter{Tenant: ids.New[ids.Tenant]()}, nil},
		"by the node of one":  {manage.Filter{Node: a.Node}, []ids.Allocation{a.ID}},
		"older than":          {manage.Filter{Before: b.CreatedAt}, []ids.Allocation{a.ID}},
		"requested since":     {manage.Filter{Since: b.CreatedAt}, []ids.Allocation{b.ID}},
		"on no node of these": {manage.Filter{Node: ids.New[ids.Node]()}, nil},
	} {
		if c.f.Limit == 0 {
			c.f.Limit = 10
		}
		list, err := s.All(t.Context(), c.f)
		var got []ids.Allocation
		for _, one := range list {
			got = append(got, one.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v, %v", rule, got, c.want, err)
		}
	}
	if a.Node == b.Node || one == two {
		t.Error("both are on one node")
	}
}

// Two operators free a slot without a proof. One cannot, not even with two statements, and no slot of an allocation that
// may still be in use is freed.
func TestTwoOperatorsFreeASlotWithoutAProof(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	w.Node(t, "node-1", 1)
	a := w.Releasing(t, 1)
	slot := queryOne[ids.Slot](t, w, `SELECT slot_id FROM slot_claims WHERE allocation_id = $1`, a.ID)
	clearBy := func(c identity.Caller) (slots.Slot, error) {
		return s.ClearInspected(t.Context(), identity.Change[slots.Slot]{Caller: c}, slot, "the disk was shredded")
	}
	if _, err := clearBy(w.Operator); errs.CodeOf(err) != errs.NodeInUse {
		t.Fatalf("while the node may still release it: %v", err)
	}
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error { return s.Exhaust(t.Context(), tx, a, 3, "no node") })
	for range 2 {
		if got, err := clearBy(w.Operator); err != nil || got.Status == "clean" || !slices.Equal(got.InspectedBy, []string{w.Operator.Actor()}) {
			t.Fatalf("after one operator: %s by %v, %v", got.Status, got.InspectedBy, err)
		}
	}
	jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs = jobs
	if got, err := clearBy(w.Caller); err != nil || got.Status != "clean" || got.Holder != nil || got.InspectedBy != nil {
		t.Fatalf("after two: %+v, %v", got, err)
	}
	if kind := queryOne[string](t, w, `SELECT kind FROM river.river_job`); kind != "conclude_allocation" {
		t.Errorf("the job is %s", kind)
	}
	done := w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error { return s.SlotsInspected(t.Context(), tx, a) })
	if done.State != allocation.Released {
		t.Errorf("its allocation is %s", done.State)
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM desired_objects WHERE uid = $1`, a.ID); n != 0 {
		t.Errorf("%d tombstones are left", n)
	}
	if _, err := clearBy(w.Operator); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a clean slot: %v", err)
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE slots SET status = 'quarantined', reason = 'foreign use' WHERE id = $1`, slot); err != nil {
		t.Fatal(err)
	}
	if got, err := clearBy(w.Operator); err != nil || got.Status == "clean" || len(got.InspectedBy) != 1 {
		t.Errorf("the inspections before count again: %s by %v, %v", got.Status, got.InspectedBy, err)
	}
}

func queryOne[T any](t *testing.T, w *allocationtest.Fixture, sql string, args ...any) (v T) {
	t.Helper()
	if err := w.DB.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
