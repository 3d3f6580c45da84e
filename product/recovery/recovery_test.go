package recovery_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/recovery"
	"github.com/gpuaas/gpuaas/protocol"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	if _, err := pgtest.Tx(t).Exec(t.Context(), recovery.DeleteLoopJobs); err != nil {
		t.Error(err)
	}
}

// restored is an installation whose database was restored. before is the lost history, which the nodes have executed.
type restored struct {
	*recovery.Service

	t                                  *testing.T
	before, after                      *allocationtest.Fixture
	gate                               *restore.Gate
	unchanged, changed, released, lost allocation.Allocation
	first, silent                      ids.Node
}

// setup makes a backup while three allocations are active. Then one of them gets a later decision, one is released and its node proves
// that, and its slot is sold again. The servers are stopped and the backup is restored.
func setup(t *testing.T) *restored {
	t.Helper()
	w := allocationtest.New(t, 1_000_000)
	r := &restored{t: t, before: w, first: w.Node(t, "gpu-01", 3)}
	r.unchanged, r.changed, r.released = w.Active(t, 1), w.Active(t, 1), w.Active(t, 1)
	r.silent = w.Node(t, "gpu-02", 2)
	for _, node := range []ids.Node{r.first, r.silent} {
		_, err := w.DB.Exec(t.Context(), `INSERT INTO certificates (serial, node_id, status, not_after) VALUES ($1, $2, 'active', now() + interval '1 hour')`, node.String(), node)
		must(t, err)
	}
	_, err := w.DB.Exec(t.Context(), `INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency, payment_method, threshold_minor, amount_minor,
			monthly_cap_minor, confirmed_at) VALUES (gen_random_uuid(), $1, gen_random_uuid(), 'active', 'cus_1', false, 'EUR', 'pm_1', 1000000000, 500, 1000, now())`, w.Caller.Tenant)
	must(t, err)
	after := *w
	after.DB = pgtest.Copy(t, w.DB)
	after.Desired = &desired.Store{DB: after.DB, Hints: w.Hints}
	after.Allocations = after.Server()
	r.after = &after
	var at time.Time
	must(t, after.DB.QueryRow(t.Context(), `SELECT now()`).Scan(&at))

	w.Do(t, func(tx pgx.Tx) error {
		o, err := w.Desired.LockUID(t.Context(), tx, desired.KindAllocation, ids.Object(r.changed.ID))
		if err == nil {
			_, err = w.Desired.Respec(t.Context(), tx, desired.KindAllocation, ids.Object(r.changed.ID), map[string]any{"was": string(o.Spec)})
		}
		return err
	})
	a, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, r.released.ID, nil)
	must(t, err)
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(2, allocationtest.GPU(r.first, 0), allocationtest.GPU(r.first, 1), allocationtest.GPU(r.first, 2)))
	})
	r.lost = w.Active(t, 1)
	if r.lost.Node != r.first {
		t.Fatal("the new allocation has no slot of the node that reports")
	}

	r.gate = &restore.Gate{DB: after.DB}
	r.Service = &recovery.Service{DB: after.DB, Allocations: &allocation.Service{DB: after.DB, Desired: after.Desired, Naming: ids.DefaultNaming, Hints: &hint.Bus{}}}
	_, err = restore.Begin(t.Context(), after.DB, restore.Point{At: at, By: "ada"})
	must(t, err)
	must(t, r.gate.Refresh(t.Context()))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// report sends the report of a node as it is after the lost history.
func (r *restored) report(node ids.Node, of ...protocol.AllocationReport) {
	r.t.Helper()
	must(r.t, r.gate.Record(r.t.Context(), node, protocol.Report{Complete: true, Allocations: of}))
}

func (r *restored) reportFirst() {
	r.t.Helper()
	said := func(a allocation.Allocation, phase protocol.Phase, fence int64) protocol.AllocationReport {
		return protocol.AllocationReport{Allocation: a.ID, Phase: phase, Fence: fence}
	}
	r.report(r.first, said(r.unchanged, protocol.Ready, 1), said(r.changed, protocol.Ready, 2), said(r.released, protocol.Gone, 2), said(r.lost, protocol.Ready, 1))
}

func (r *restored) confirm(without ...string) (recovery.Done, error) {
	return r.Confirm(r.t.Context(), recovery.Confirmation{By: "ada", WithoutNodes: without})
}

func (r *restored) count(sql string, args ...any) (n int) {
	r.t.Helper()
	must(r.t, r.after.DB.QueryRow(r.t.Context(), sql, args...).Scan(&n))
	return n
}

// INV-63: the state lists exactly what differs, and the confirmation destroys nothing and sells nothing twice.
func TestINV63AConfirmedRestoreDestroysNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	st, err := r.State(t.Context())
	must(t, err)
	if silent := st.Silent(); len(st.Differences) != 0 || !slices.Equal(silent, []string{"gpu-01", "gpu-02"}) {
		t.Errorf("before any report: %+v, silent %v", st.Differences, silent)
	}
	r.reportFirst()
	st, err = r.State(t.Context())
	must(t, err)
	type row struct {
		kind  string
		id    uuid.UUID
		db    string
		said  string
		fence int64
		known int64
	}
	var got []row
	for _, d := range st.Differences {
		got = append(got, row{d.Kind, *d.Allocation, d.Status, d.Phase, d.Fence, d.StoredFence})
	}
	want := []row{
		{"newer_fence", r.changed.ID.UUID, "active", "ready", 2, 1},
		{"released_on_node", r.released.ID.UUID, "active", "gone", 2, 1},
		{"unknown_allocation", r.lost.ID.UUID, "", "ready", 1, 0},
	}
	if !slices.Equal(got, want) {
		t.Errorf("differences:\n%v, want\n%v", got, want)
	}
	if _, err := r.confirm(); errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "gpu-02") {
		t.Errorf("before the report of gpu-02: %v", err)
	}
	if _, err := r.confirm("gpu-02", "gpu-99"); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("without an unknown node: %v", err)
	}
	displayed := recovery.Confirmation{By: "ada", WithoutNodes: []string{"gpu-02"}, Agreed: st.Digest()}
	r.report(r.silent)
	if _, err := r.Confirm(t.Context(), displayed); errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "displayed") {
		t.Errorf("after a report that came while the operator read: %v", err)
	}
	_, err = r.after.DB.Exec(t.Context(), `DELETE FROM restore_reports WHERE node_id = $1`, r.silent)
	must(t, err)
	if n := r.count(`SELECT count(*) FROM restores WHERE confirmed_at IS NULL`); n != 1 {
		t.Fatal("a rejected confirmation has confirmed")
	}
	done, err := r.Confirm(t.Context(), displayed)
	must(t, err)
	if done.Already || done.Paused != 1 || done.Fences != 2 || !slices.Equal(done.Unknown, []uuid.UUID{r.lost.ID.UUID}) || !slices.Equal(done.Released, []uuid.UUID{r.released.ID.UUID}) || !slices.Equal(done.Cordoned, []string{"gpu-01", "gpu-02"}) {
		t.Errorf("done: %+v", done)
	}
	r.checkConfirmed()
	if again, err := r.confirm(); err != nil || !again.Already || again.Restore.ID != done.Restore.ID {
		t.Errorf("confirmed again: %+v, %v", again, err)
	}
}

func (r *restored) checkConfirmed() {
	t := r.t
	t.Helper()
	for name, n := range map[string]int{
		"a confirmed restore":   r.count(`SELECT count(*) FROM restores WHERE confirmed_at IS NOT NULL AND report->'unknown' = jsonb_build_array($1::text)`, r.lost.ID.String()),
		"an audit row of it":    r.count(`SELECT count(*) FROM audit_logs WHERE action = 'restore.confirm'`),
		"a release":             r.count(`SELECT count(*) FROM allocations WHERE id = $1 AND status = 'releasing'`, r.released.ID),
		"a closed interval":     r.count(`SELECT count(*) FROM usage_records WHERE allocation_id = $1 AND end_s IS NOT NULL`, r.released.ID),
		"a paused mandate":      r.count(`SELECT count(*) FROM payment_mandates WHERE status = 'paused' AND reason = 'restored'`),
		"an event of it":        r.count(`SELECT count(*) FROM outbox_events WHERE subject = 'payments.auto_topup_paused'`),
		"an unknown allocation": r.count(`SELECT count(*) FROM restore_allocations WHERE allocation_id = $1 AND node_id = $2`, r.lost.ID, r.first),
	} {
		if n != 1 {
			t.Errorf("%d, want %s", n, name)
		}
	}
	if n := r.count(`SELECT count(*) FROM allocations WHERE id = ANY($1) AND status = 'active'`, []uuid.UUID{r.unchanged.ID.UUID, r.changed.ID.UUID}); n != 2 {
		t.Errorf("%d of 2 allocations are active", n)
	}
	if unchanged, changed, released := r.after.Declared(t, r.unchanged.ID), r.after.Declared(t, r.changed.ID), r.after.Declared(t, r.released.ID); unchanged.Fence != 1 || changed.Fence != 3 || released.Fence < 3 {
		t.Errorf("fences %d, %d, %d: the node has executed 1, 2 and 2", unchanged.Fence, changed.Fence, released.Fence)
	}
	// The node proves the release again. Its slot is free in the database, and the lost allocation runs on it.
	fence := r.after.Declared(t, r.released.ID).Fence
	r.after.Move(t, r.released.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return r.after.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(fence, allocationtest.GPU(r.first, 0), allocationtest.GPU(r.first, 1), allocationtest.GPU(r.first, 2)))
	})
	_, err := r.after.Server().Request(t.Context(), allocation.Request{Caller: r.after.Caller, SKU: allocationtest.SKU, GPUs: 1})
	if errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("a slot was sold on a node with an unknown allocation, or on one that has not reported: %v", err)
	}
}

// INV-63: an incomplete report proves nothing. A complete one without an active allocation, and a certificate that the database does not know,
// are differences that change nothing.
func TestINV63DifferencesThatChangeNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	must(t, r.gate.Record(t.Context(), r.first, protocol.Report{}))
	if adopted, err := (&secret.Certificates{DB: r.after.DB}).Adopt(t.Context(), r.silent, "0b", time.Now()); err != nil || !adopted {
		t.Fatal(adopted, err)
	}
	kinds := func() (kinds []string) {
		st, err := r.State(t.Context())
		must(t, err)
		for _, d := range st.Differences {
			kinds = append(kinds, strings.TrimSpace(d.Kind+" "+d.Phase))
		}
		if e := st.Effects(); e.Fences+e.Releases+e.Unknown != 0 || e.Cordons != len(st.Silent()) {
			t.Errorf("effects %+v of %v", e, kinds)
		}
		return kinds
	}
	if got := kinds(); !slices.Equal(got, []string{"unknown_certificate 0b"}) {
		t.Errorf("after an incomplete report: %v", got)
	}
	r.report(r.first)
	if got := kinds(); !slices.Equal(got, []string{"missing_on_node", "missing_on_node", "missing_on_node", "unknown_certificate 0b"}) {
		t.Errorf("after a report without allocations: %v", got)
	}
}

// Two operators confirm at the same time: one of them does.
func TestOneOfTwoConfirmationsHasEffect(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.reportFirst()
	r.report(r.silent)
	done, failed := make([]recovery.Done, 2), make([]error, 2)
	var both sync.WaitGroup
	for i := range done {
		both.Go(func() {
			done[i], failed[i] = r.Confirm(context.WithoutCancel(t.Context()), recovery.Confirmation{By: "ada"})
		})
	}
	both.Wait()
	if failed[0] != nil || failed[1] != nil || done[0].Already == done[1].Already {
		t.Errorf("%+v %v, %+v %v", done[0], failed[0], done[1], failed[1])
	}
	if n := r.count(`SELECT count(*) FROM audit_logs WHERE action = 'restore.confirm'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
}

// A restored database is restored again, to a backup of the time before the confirmation: both points are in progress as one.
func TestARestoreOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.reportFirst()
	var at time.Time
	must(t, r.after.DB.QueryRow(t.Context(), `SELECT now()`).Scan(&at))
	second := pgtest.Copy(t, r.after.DB)
	_, err := restore.Begin(t.Context(), second, restore.Point{At: at, By: "ada"})
	must(t, err)
	s := &recovery.Service{DB: second, Allocations: r.Allocations}
	st, err := s.State(t.Context())
	must(t, err)
	if len(st.Differences) != 0 || len(st.Silent()) != 2 || st.InProgress.RestoredTo.Equal(at) {
		t.Errorf("a report before the second restore counts, or its first point is lost: %+v", st)
	}
	if _, err := s.Confirm(t.Context(), recovery.Confirmation{By: "ada", WithoutNodes: st.Silent()}); err != nil {
		t.Error(err)
	}
	if open, err := restore.Open(t.Context(), second); open != nil || err != nil {
		t.Errorf("in progress: %+v, %v", open, err)
	}
}
