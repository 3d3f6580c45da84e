package observed_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/protocol"
)

// replica is one server process. It receives reports as the node API does.
type replica struct {
	*observed.Store

	t     *testing.T
	db    *pgxpool.Pool
	stale time.Duration
	skew  time.Duration // of its clock
}

func replicas(t *testing.T, stale time.Duration) (a, b *replica) {
	t.Helper()
	db := pgtest.Clone(t)
	return another(t, db, stale), another(t, db, stale)
}

func another(t *testing.T, db *pgxpool.Pool, stale time.Duration) *replica {
	t.Helper()
	r := &replica{t: t, db: db, stale: stale}
	r.Store = &observed.Store{DB: db, Leases: &observed.Leases{
		DB: db, Log: slog.New(slog.DiscardHandler), StaleAfter: func() time.Duration { return stale },
		Clock: clock.At(func() time.Time { return clock.Clock{}.Now().Add(r.skew) }),
	}}
	r.renew()
	return r
}

func (r *replica) renew() {
	r.t.Helper()
	if err := r.Leases.Renew(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// hears processes a report. memory means that it cost the database no transaction of its own.
func (r *replica) hears(node ids.Node, w protocol.Report) (memory bool, err error) {
	if taken, err := r.Leases.Again(r.t.Context(), node, w); err != nil || taken {
		return taken, err
	}
	err = pgx.BeginFunc(r.t.Context(), r.db, func(tx pgx.Tx) error {
		_, err := r.Report(r.t.Context(), tx, node, w, r.stale)
		return err
	})
	if err != nil {
		return false, err
	}
	return false, r.Leases.Store(node, w)
}

// must hear it, from memory or not.
func (r *replica) must(memory bool, node ids.Node, w protocol.Report) {
	r.t.Helper()
	if got, err := r.hears(node, w); err != nil || got != memory {
		r.t.Errorf("sequence %d: from memory %v, want %v, %v", w.Sequence, got, memory, err)
	}
}

func (r *replica) silent(node ids.Node) (silent bool) {
	r.t.Helper()
	err := pgx.BeginFunc(r.t.Context(), r.db, func(tx pgx.Tx) (err error) {
		silent, _, err = r.IsStale(r.t.Context(), tx, node)
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	return silent
}

func (r *replica) exec(sql string) {
	r.t.Helper()
	if _, err := r.db.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) row(node ids.Node) (n observed.Node) {
	r.t.Helper()
	n, err := r.Node(r.t.Context(), node)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// F3: a report without news writes nothing, and the row's time still advances: the last report is at
// most half of the stale time old.
func TestUnchangedWritesNothing(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	nodes := make([]ids.Node, 20)
	for i := range nodes {
		nodes[i] = ids.New[ids.Node]()
		a.must(false, nodes[i], report(1, 1))
	}
	a.exec(`UPDATE observed_nodes SET observed_at = now() - interval '50 s', stale_at = now() + interval '10 s'`)
	diff := pgtest.Diff(t, a.db)
	for sequence := range int64(50) {
		for _, n := range nodes {
			again := report(1, 2+sequence)
			again.Inventory.GPUs[0].PowerMW = sequence
			a.must(true, n, again)
		}
	}
	if got := diff(); got != "" {
		t.Errorf("1,000 reports wrote\n%s", got)
	}
	a.renew()
	for _, n := range nodes {
		row := a.row(n)
		if heard := row.StaleAt.Sub(row.ObservedAt); heard != minute || time.Until(row.StaleAt) < minute/2-time.Second {
			t.Errorf("stale %s after its report, in %s", heard, time.Until(row.StaleAt))
		}
	}
}

// A node with its own report interval is outside of the lease, also if it was covered before.
func TestAnExcludedNodeIsWritten(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	node, excluded := ids.New[ids.Node](), false
	a.Leases.Excluded = func(n ids.Node) bool { return excluded && n == node }
	a.must(false, node, report(1, 1))
	a.must(true, node, report(1, 2))
	excluded, a.stale = true, 3*minute
	for sequence := range int64(3) {
		a.must(false, node, report(1, 3+sequence))
		a.renew()
		if row := a.row(node); row.StaleAt.Sub(row.ObservedAt) != a.stale {
			t.Errorf("stale %s after its report", row.StaleAt.Sub(row.ObservedAt))
		}
	}
	excluded, a.stale = false, minute
	a.must(true, node, report(1, 6)) // the lease adopts its row
	a.must(true, node, report(1, 7))
}

// A report with new content is applied at once, and then covered by the lease.
func TestNewsIsWritten(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	node, allocation := ids.New[ids.Node](), ids.New[ids.Allocation]()
	news := func(sequence, fence int64) protocol.Report {
		return report(1, sequence, protocol.AllocationReport{Allocation: allocation, Phase: protocol.Ready, Fence: fence})
	}
	a.must(false, node, news(1, 1))
	a.must(true, node, news(2, 1))
	a.must(false, node, news(3, 2))
	if seen, err := a.Allocation(t.Context(), allocation); err != nil || seen.Fence != 2 || !seen.Fresh {
		t.Errorf("%+v, %v", seen, err)
	}
	a.must(true, node, news(4, 2))
}

// A report older than the one in memory is rejected, even if the row does not contain that one yet, and
// also by other processes.
func TestReportOlderThanMemoryIsRejected(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, minute)
	node := ids.New[ids.Node]()
	a.must(false, node, report(1, 1))
	a.must(true, node, report(1, 2))
	a.must(true, node, report(1, 3))
	for _, old := range []protocol.Report{report(1, 3), report(1, 2), report(0, 9)} {
		for name, r := range map[string]*replica{"here": a, "elsewhere": b} {
			if name == "elsewhere" && old.Sequence == 3 {
				continue // compared after the first rejection only: that is what writes the row
			}
			if _, err := r.hears(node, old); errs.CodeOf(err) != errs.StaleReport {
				t.Errorf("%s, boot %d sequence %d: %v", name, old.Boot, old.Sequence, err)
			}
		}
	}
	if row := a.row(node); row.Sequence != 3 {
		t.Errorf("the row is at %d", row.Sequence)
	}
	a.must(true, node, report(1, 4)) // adopted again
}

// INV-77: the reports of a new enrolment follow those of the one before, whatever their boot number, also
// where the last report is in memory. Late reports of the one before are rejected.
func TestINV77EnrolmentOrdersReports(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, minute)
	node := ids.New[ids.Node]()
	of := func(enrolment, boot, sequence int64) protocol.Report {
		r := report(boot, sequence)
		r.BootID, r.Enrolment = "same", enrolment
		return r
	}
	a.must(false, node, of(1, 1<<40, 1))
	a.must(true, node, of(1, 1<<40, 2))
	a.must(false, node, of(2, 1, 1))
	a.must(true, node, of(2, 1, 2))
	for name, r := range map[string]*replica{"the same": a, "another": b} {
		if _, err := r.hears(node, of(1, 1<<40, 9)); errs.CodeOf(err) != errs.StaleReport {
			t.Errorf("%s process, a report of the enrolment before: %v", name, err)
		}
	}
	if _, err := b.hears(node, of(2, 1, 3)); err != nil {
		t.Error(err)
	}
}

// The lease drops a node that stops reporting, with the time of its last report.
func TestLeaseDropsASilentNode(t *testing.T) {
	t.Parallel()
	const stale = 3 * time.Second // real time passes here
	a, _ := replicas(t, stale)
	stops, stays := ids.New[ids.Node](), ids.New[ids.Node]()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Leases.Run(ctx) })
	a.must(false, stops, report(1, 1))
	a.must(false, stays, report(1, 1))
	a.must(true, stops, report(1, 2))
	last := clock.Clock{}.Now()

	tick := time.NewTicker(stale / 6)
	defer tick.Stop()
	for sequence := int64(2); !a.silent(stops); sequence++ {
		if _, err := a.hears(stays, report(1, sequence)); err != nil {
			t.Fatal(err)
		}
		if a.silent(stays) {
			t.Fatal("who reports is silent")
		}
		<-tick.C
	}
	row := a.row(stops)
	if row.ObservedAt.After(last.Add(time.Millisecond)) || row.StaleAt.Sub(row.ObservedAt) != stale || row.Sequence != 2 {
		t.Errorf("last heard at %s, row %+v", last, row)
	}
	if n := a.Leases.Covered(); n != 1 {
		t.Errorf("%d are covered", n)
	}
	cancel()
	running.Wait()
	// On purpose: the row contains all that was reported.
	if row := a.row(stays); time.Since(row.ObservedAt) > stale || row.Sequence < 3 {
		t.Errorf("after the end %+v", row)
	}
}

// The lease of a process that dies covers no node any more: its nodes become stale in their time, or
// another process adopts them unchanged.
func TestCrashLosesAWindow(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, minute)
	node, lost := ids.New[ids.Node](), ids.New[ids.Node]()
	for _, n := range []ids.Node{node, lost} {
		a.must(false, n, report(1, 1))
		a.must(true, n, report(1, 2))
	}
	a.renew()
	a.exec(`UPDATE observed_nodes SET observed_at = now() - interval '1 h', stale_at = now() - interval '1 h'`)
	if a.silent(node) {
		t.Error("under a lease and silent")
	}
	due := func() (n int) {
		if err := a.db.QueryRow(t.Context(), `SELECT count(*) FROM reconcile_due`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	a.exec(`DELETE FROM reconcile_due`)
	b.must(true, node, report(1, 3)) // without a transaction of its own
	if due() != 0 {
		t.Error("a move made a row due")
	}
	a.exec(`UPDATE observed_leases SET observed_at = now() - interval '1 h', stale_at = now()`) // of both
	if !a.silent(lost) || a.silent(node) {
		t.Errorf("lost silent %v, moved silent %v", a.silent(lost), a.silent(node))
	}
	b.must(false, lost, report(1, 3))
	if due() == 0 {
		t.Error("no row became due for its return")
	}
}

// A node may speak to one process and then to the other, and back.
func TestNodesMove(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, minute)
	node := ids.New[ids.Node]()
	a.must(false, node, report(1, 1))
	for sequence := int64(2); sequence < 20; sequence++ {
		r := a
		if sequence/3%2 == 1 {
			r = b
		}
		if _, err := r.hears(node, report(1, sequence)); err != nil {
			t.Fatal(err)
		}
		if sequence%4 == 0 {
			a.renew()
			b.renew()
		}
		if a.silent(node) {
			t.Fatalf("silent at %d", sequence)
		}
	}
	a.renew()
	b.renew()
	if a.Leases.Covered()+b.Leases.Covered() != 1 {
		t.Errorf("%d and %d cover it", a.Leases.Covered(), b.Leases.Covered())
	}
}

// A process that was stopped, or could not write for too long, starts with a new lease: its memory may
// be outdated, and other processes have observed its nodes become stale.
func TestALostLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*replica){
		"our clock was set":     func(a *replica) { a.skew = time.Hour },
		"this process was away": func(a *replica) { a.skew = -time.Minute },
		"it went stale":         func(a *replica) { a.exec(`UPDATE observed_leases SET stale_at = now()`) },
		"it is gone":            func(a *replica) { a.exec(`DELETE FROM observed_leases`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _ := replicas(t, minute)
			node := ids.New[ids.Node]()
			a.must(false, node, report(1, 1))
			a.exec(`UPDATE observed_nodes SET stale_at = now()`)
			lose(a)
			a.renew()
			a.renew()
			a.exec(`UPDATE observed_leases SET stale_at = now() WHERE id = (SELECT lease FROM observed_nodes)`)
			if !a.silent(node) || a.Leases.Covered() != 0 {
				t.Errorf("silent %v, %d covered", a.silent(node), a.Leases.Covered())
			}
			a.must(false, node, report(1, 2))
			a.renew()
			a.must(true, node, report(1, 3))
		})
	}
}

// A commit whose response was lost leaves a row that names the lease, and no process that knows it.
func TestStraysAreLetGo(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	node := ids.New[ids.Node]()
	err := pgx.BeginFunc(t.Context(), a.db, func(tx pgx.Tx) error {
		_, err := a.Report(t.Context(), tx, node, report(1, 1), minute)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	before := a.row(node)
	a.renew()
	a.exec(`UPDATE observed_leases SET stale_at = now() + interval '1 h'`)
	if row := a.row(node); row.StaleAt != before.StaleAt {
		t.Errorf("stale at %s, want %s", row.StaleAt, before.StaleAt)
	}
}

// While other processes may not see the lease, every report is written.
func TestWithoutALeaseAllIsWritten(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	node := ids.New[ids.Node]()
	a.must(false, node, report(1, 1))
	a.must(true, node, report(1, 2))
	a.skew = minute // as if no renewal had succeeded for that long
	a.must(false, node, report(1, 3))
	if row := a.row(node); row.Sequence != 3 {
		t.Errorf("the row is at %d", row.Sequence)
	}
}

// After a restart the whole fleet reports at once, and is adopted in batches.
func TestManyAreAdoptedTogether(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, minute)
	nodes := make([]ids.Node, 300)
	for i := range nodes {
		nodes[i] = ids.New[ids.Node]()
	}
	each := func(do func(ids.Node)) {
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() { do(n) })
		}
		all.Wait()
	}
	each(func(n ids.Node) { a.must(false, n, report(1, 1)) })
	each(func(n ids.Node) { b.must(true, n, report(1, 2)) })
	each(func(n ids.Node) { b.must(true, n, report(1, 3)) })
	b.renew()
	if b.Leases.Covered() != len(nodes) {
		t.Errorf("%d are covered", b.Leases.Covered())
	}
	var rows int
	if err := b.db.QueryRow(t.Context(), `SELECT count(DISTINCT lease) FROM observed_nodes WHERE sequence = 2`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d leases, %v", rows, err)
	}
}

// A caller waits for a batch no longer than its own deadline.
func TestAdoptionEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	a, _ := replicas(t, minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Leases.Again(ctx, ids.Node{UUID: uuid.New()}, report(1, 1)); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
