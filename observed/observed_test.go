package observed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/protocol"
)

const minute = time.Minute

type bundle struct {
	observed.Store

	t    *testing.T
	tx   pgx.Tx
	node ids.Node
	a    ids.Allocation
}

func setup(t *testing.T) *bundle {
	t.Helper()
	tx := pgtest.Tx(t)
	return &bundle{observed.Store{DB: tx}, t, tx, ids.New[ids.Node](), ids.New[ids.Allocation]()}
}

// report is a complete report with allocations in a phase at a fence.
func report(boot, sequence int64, seen ...protocol.AllocationReport) protocol.Report {
	return protocol.Report{
		Capability: 1, Agent: "1", BootID: fmt.Sprint("boot-", boot), Boot: boot, Sequence: sequence, Complete: true, Allocations: seen,
		Inventory: protocol.Inventory{GPUs: []protocol.GPU{{UUID: "GPU-1", Health: protocol.Healthy}}},
	}
}

func (b *bundle) is(phase protocol.Phase, fence int64) protocol.AllocationReport {
	return protocol.AllocationReport{Allocation: b.a, Phase: phase, Fence: fence, Generation: fence, SpecHash: "h"}
}

// report processes a report of the node and clears the due rows before it.
func (b *bundle) report(r protocol.Report) (changed bool) {
	b.t.Helper()
	b.unmark()
	changed, err := b.Report(b.t.Context(), b.tx, b.node, r, minute)
	if err != nil {
		b.t.Fatal(err)
	}
	return changed
}

func (b *bundle) unmark() { b.exec(`DELETE FROM reconcile_due`) }

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.tx.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// due lists the reasons of the marks, by kind.
func (b *bundle) due() string {
	b.t.Helper()
	rows, err := b.tx.Query(b.t.Context(), `SELECT kind || ': ' || reason FROM reconcile_due ORDER BY 1`)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

func (b *bundle) allocation() observed.Allocation {
	b.t.Helper()
	a, err := b.AllocationIn(b.t.Context(), b.tx, b.a, b.node)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// loopState returns the state of the allocation that the control loop reads.
func (b *bundle) loopState() (s observed.AllocationState) {
	b.t.Helper()
	batch := &pgx.Batch{}
	observed.QueueReports(batch, []uuid.UUID{b.a.UUID}, func(got observed.AllocationState) { s = got })
	if err := b.tx.SendBatch(b.t.Context(), batch).Close(); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// A report is applied only if it is newer: by boot first, because the sequence starts again with each
// boot.
func TestNewerWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		boot, sequence int64
		newer          bool
	}{{1, 5, true}, {1, 5, false}, {1, 4, false}, {1, 6, true}, {2, 1, true}, {1, 900, false}, {2, 1, false}, {2, 2, true}} {
		diff := pgtest.Diff(t, b.tx)
		_, err := b.Report(t.Context(), b.tx, b.node, report(c.boot, c.sequence), minute)
		switch {
		case c.newer && err != nil:
			t.Errorf("boot %d sequence %d: %v", c.boot, c.sequence, err)
		case !c.newer && (errs.CodeOf(err) != errs.StaleReport || diff() != ""):
			t.Errorf("boot %d sequence %d was applied: %v\n%s", c.boot, c.sequence, err, diff())
		}
	}
}

// A report without news writes one row, whatever its counters contain.
func TestUnchangedIsOneRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if !b.report(report(1, 1, b.is(protocol.Ready, 1))) {
		t.Error("the first report is nothing new")
	}
	b.unmark()
	diff := pgtest.Diff(t, b.tx)
	again := report(1, 2, b.is(protocol.Ready, 1))
	again.Inventory.GPUs[0].PowerMW, again.Inventory.GPUs[0].Celsius, again.Inventory.GPUs[0].UsedMiB = 400, 70, 9
	if b.report(again) {
		t.Error("counters are news")
	}
	// now() is constant within a transaction, so only the sequence changes.
	want := fmt.Sprintf("~ observed_nodes node_id=%q: sequence: 1 → 2\n", b.node)
	if got := diff(); got != want {
		t.Errorf("wrote\n%swant\n%s", got, want)
	}
}

// What changed is marked, and only that.
func TestMarks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.report(report(1, 1, b.is(protocol.Working, 1)))
	if got := b.due(); got != "Allocation: reported, Node: reports have begun" {
		t.Errorf("first report: %s", got)
	}
	b.report(report(1, 2, b.is(protocol.Ready, 1)))
	if got := b.due(); got != "Allocation: reported" {
		t.Errorf("a change: %s", got)
	}
	sick := report(1, 3, b.is(protocol.Ready, 1))
	sick.Inventory.GPUs[0].Health = protocol.Unhealthy
	if !b.report(sick) || b.due() != "" {
		t.Errorf("a sick device: %s", b.due())
	}
}

// Only a whole report proves that something is not there, and then it is gone
// without proof: nothing is known to be clean.
func TestAbsence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.report(report(1, 1, b.is(protocol.Ready, 3)))
	half := report(1, 2)
	half.Complete, half.Missing = false, []string{"host"}
	b.report(half)
	if a := b.allocation(); a.Phase != protocol.Ready || a.Fresh || b.loopState().Complete {
		t.Errorf("half a report: %+v", a)
	}
	b.report(report(1, 3))
	if a := b.allocation(); a.Phase != protocol.Gone || a.Fence != 3 || a.Proven || !a.Fresh || !strings.Contains(b.due(), "Allocation") {
		t.Errorf("a whole one: %+v, due %s", a, b.due())
	}
	b.report(report(1, 4))
	if b.due() != "" {
		t.Errorf("forgotten twice: %s", b.due())
	}
}

// A proof counts at its own fence and with nothing left.
func TestProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proof *protocol.Proof
		want  bool
	}{
		"clean":                  {&protocol.Proof{Fence: 3, Leftovers: []string{}}, true},
		"clean, with a nil list": {&protocol.Proof{Fence: 3}, true},
		"leftovers":              {&protocol.Proof{Fence: 3, Leftovers: []string{"/home/u"}}, false},
		"of an older fence":      {&protocol.Proof{Fence: 2}, false},
		"none":                   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			gone := b.is(protocol.Gone, 3)
			gone.Proof = c.proof
			b.report(report(1, 1, gone))
			if b.loopState().Proven != c.want || b.allocation().Proven != c.want {
				t.Errorf("proven: %v, %v", b.loopState().Proven, b.allocation().Proven)
			}
			b.report(report(1, 2)) // the node has dropped its record: its proof stays
			if b.loopState().Proven != c.want {
				t.Errorf("forgotten with its record: %v", b.loopState().Proven)
			}
		})
	}
}

// INV-45: a late report of an older fence changes nothing. INV-41: neither does a report of a node about
// another node's allocation.
func TestINV45LateAndForeignWords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.report(report(1, 1, b.is(protocol.Ready, 5)))
	b.report(report(1, 2, b.is(protocol.Gone, 4)))
	if a := b.allocation(); a.Phase != protocol.Ready || a.Fence != 5 || b.due() != "" {
		t.Errorf("after a late report %+v, due %s", a, b.due())
	}
	own := b.node
	b.node = ids.New[ids.Node]()
	gone := b.is(protocol.Gone, 9)
	gone.Proof = &protocol.Proof{Fence: 9, Scrubbed: []string{"GPU-1"}}
	b.report(report(1, 1, gone))
	b.failed(protocol.Result{Allocation: b.a, Fence: 9})
	b.node = own
	if a := b.allocation(); a.Phase != protocol.Ready || a.Fence != 5 || a.Node != own || a.Failures != 0 {
		t.Errorf("another node changed it to %+v", a)
	}
}

func (b *bundle) failed(r protocol.Result) {
	b.t.Helper()
	if err := b.Failed(b.t.Context(), b.tx, b.node, r); err != nil {
		b.t.Fatal(err)
	}
}

// INV-77: a stolen node key reports an allocation before its true node does. The row of the true node is
// written all the same.
func TestINV77AForeignReportComesFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.node
	b.node = ids.New[ids.Node]()
	b.report(report(1, 1, b.is(protocol.Gone, 1<<40)))
	b.node = own
	b.report(report(1, 1, b.is(protocol.Ready, 5)))
	if a := b.allocation(); a.Phase != protocol.Ready || a.Fence != 5 || a.Node != own {
		t.Errorf("the true node's report is %+v", a)
	}
}

// A node that rejects a task as replayed has tried nothing, so the rejection uses up no attempt.
func TestAReplayIsNoFailure(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for range 3 {
		b.failed(protocol.Result{Allocation: b.a, Fence: 1, Code: protocol.Replayed, Message: "signed before"})
	}
	if a := b.allocation(); a.Failures != 0 || a.FailedFence != 1 || a.Message != "signed before" {
		t.Errorf("%+v", a)
	}
	b.failed(protocol.Result{Allocation: b.a, Fence: 1, Code: protocol.StepFailed})
	b.failed(protocol.Result{Allocation: b.a, Fence: 1, Code: protocol.Replayed})
	if a := b.allocation(); a.Failures != 1 {
		t.Errorf("%+v", a)
	}
}

// Failures are counted for one fence: those of an overtaken task do not count against the next one, and
// late ones are ignored.
func TestFailuresPerFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		fence    int64
		failures int
		at       int64
	}{{2, 1, 2}, {2, 2, 2}, {3, 1, 3}, {2, 1, 3}, {3, 2, 3}} {
		b.failed(protocol.Result{Allocation: b.a, Fence: c.fence, Code: protocol.StepFailed, Message: "no"})
		if a := b.allocation(); a.Failures != c.failures || a.FailedFence != c.at || a.Proven || a.Message != "no" {
			t.Errorf("after a failure at %d: %+v", c.fence, a)
		}
	}
	if b.due() != "Allocation: a task failed" {
		t.Errorf("due: %s", b.due())
	}
}

// A node that resumes its reports, or whose report is complete again, makes the waiting objects due.
// Released objects wait for nothing.
func TestWhoComesBackWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.report(report(1, 1, b.is(protocol.Ready, 1)))
	b.exec(`UPDATE observed_nodes SET stale_at = now()`)
	if silent, known, err := b.IsStale(t.Context(), b.tx, b.node); !silent || !known || err != nil {
		t.Errorf("silent %v, known %v, %v", silent, known, err)
	}
	if silent, all, err := b.StaleNodes(t.Context()); silent != 1 || all != 1 || err != nil {
		t.Errorf("%d of %d are silent, %v", silent, all, err)
	}
	b.report(report(1, 2, b.is(protocol.Ready, 1)))
	if got := b.due(); got != "Allocation: its node reports again, Node: reports have begun" {
		t.Errorf("back: %s", got)
	}
	half := report(1, 3, b.is(protocol.Ready, 1))
	half.Complete = false
	b.report(half)
	if got := b.due(); got != "" {
		t.Errorf("half a report: %s", got)
	}
	half.Sequence = 4
	b.report(half)
	if got := b.due(); got != "" {
		t.Errorf("half a report again: %s", got)
	}
	b.report(report(1, 5, b.is(protocol.Ready, 1)))
	if got := b.due(); !strings.Contains(got, "its node reports again") {
		t.Errorf("whole again: %s", got)
	}
	b.report(report(1, 6))
	b.exec(`UPDATE observed_nodes SET stale_at = now()`)
	b.report(report(1, 7))
	if got := b.due(); got != "Node: reports have begun" {
		t.Errorf("with nothing left: %s", got)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, err := range map[string]error{
		"node":       second(b.Node(t.Context(), b.node)),
		"allocation": second(b.Allocation(t.Context(), b.a)),
	} {
		if errs.CodeOf(err) != errs.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, known, err := b.IsStale(t.Context(), b.tx, b.node); known || err != nil {
		t.Errorf("known %v, %v", known, err)
	}
	b.report(report(1, 1, b.is(protocol.Ready, 1)))
	n, err := b.Node(t.Context(), b.node)
	if err != nil || !n.Complete || len(n.Inventory.GPUs) != 1 || n.StaleAt.Sub(n.ObservedAt) != minute {
		t.Errorf("%+v, %v", n, err)
	}
	reads := &pgx.Batch{}
	all := observed.QueueAllocations(reads, []uuid.UUID{b.a.UUID, uuid.New()})
	if err := b.tx.SendBatch(t.Context(), reads).Close(); err != nil || len(all) != 1 || all[b.a].SpecHash != "h" {
		t.Errorf("%+v, %v", all, err)
	}
}

func second[T any](_ T, err error) error { return err }

// The applied spec is stored per desired object and makes it due.
func TestApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	uid := uuid.New()
	var got []observed.Applied
	for _, want := range []observed.Applied{{UID: uid, Generation: 1, SpecHash: "a"}, {UID: uid, Generation: 2, Epoch: 3, SpecHash: "b", Gone: true}} {
		b.unmark()
		if err := b.Applied(t.Context(), b.tx, "SKU", want); err != nil {
			t.Fatal(err)
		}
		got = nil
		batch := &pgx.Batch{}
		observed.QueueApplied(batch, []uuid.UUID{uid}, func(a observed.Applied) { got = append(got, a) })
		if err := b.tx.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, []observed.Applied{want}) || b.due() != "SKU: applied" {
			t.Errorf("%+v, due %s", got, b.due())
		}
	}
}

// INV-72. Threat: one tenant makes its own part of the host OS unreadable. Its row stays as it was last
// read and proves nothing; the rows of the others are evidence, and the absence of others is proved.
func TestOneUnreadAllocationHidesNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hostile, other := b.a, ids.New[ids.Allocation]()
	of := func(id ids.Allocation, phase protocol.Phase, unread string) protocol.AllocationReport {
		return protocol.AllocationReport{Allocation: id, Phase: phase, Fence: 1, Generation: 1, SpecHash: "h", Unread: unread}
	}
	b.report(report(1, 1, of(hostile, protocol.Ready, ""), of(other, protocol.Ready, "")))
	b.report(report(1, 2, of(hostile, protocol.Working, "too many"), of(other, protocol.Broken, "")))
	if got := b.due(); strings.Count(got, "Allocation: ") != 2 {
		t.Errorf("due: %s", got)
	}
	if s := b.loopState(); s.Complete || s.Phase != protocol.Ready {
		t.Errorf("unread: %+v", s)
	}
	b.a = other
	if s := b.loopState(); !s.Complete || s.Phase != protocol.Broken {
		t.Errorf("the other: %+v", s)
	}
	b.a = hostile
	b.report(report(1, 3, of(hostile, protocol.Ready, ""), of(other, protocol.Broken, "")))
	if s := b.loopState(); !s.Complete || s.Phase != protocol.Ready || !strings.Contains(b.due(), "can read it again") {
		t.Errorf("read again: %+v, due %s", s, b.due())
	}
}
