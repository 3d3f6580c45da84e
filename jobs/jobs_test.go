package jobs_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// The planner uses the state names of the package that owns the state machine.
func TestINV04PlanUsesTheStatesOfAllocations(t *testing.T) {
	t.Parallel()
	planned := []plan.State{plan.Requested, plan.Provisioning, plan.Active, plan.Releasing, plan.Released, plan.Failed, plan.ReleaseFailed}
	var words, rooms []string
	for _, s := range planned {
		words = append(words, string(s))
	}
	for _, s := range allocation.States() {
		rooms = append(rooms, string(s))
	}
	if !slices.Equal(words, rooms) {
		t.Errorf("planner %v, state machine %v", words, rooms)
	}
	for event, planned := range map[allocation.Trigger]plan.Trigger{allocation.NodeReady: plan.NodeReady, allocation.CleanupProved: plan.CleanupProved, allocation.Exhausted: plan.Exhausted} {
		if string(event) != string(planned) {
			t.Errorf("planner %s, state machine %s", planned, event)
		}
	}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Node(t, "node-2", 8)
	a := b.Request(t, 2)
	b.twice(b.ensure(a))
	e, o := b.pendingTask()
	if b.state(a) != allocation.Provisioning || e.Allocation != a.ID || e.Fence != 1 || o.User != a.Login || o.UID != a.HostUID || len(o.GPUs) != 2 {
		t.Errorf("%s, expected %+v %+v", b.state(a), e, o)
	}

	// INV-22: a change since the plan was made is found after the rows are locked.
	for why, change := range map[string]func(*reconciler.EnsureAllocation){
		"another generation": func(e *reconciler.EnsureAllocation) { e.Generation++ },
		"another fence":      func(e *reconciler.EnsureAllocation) { e.Fence-- },
		"another epoch":      func(e *reconciler.EnsureAllocation) { e.Epoch++ },
	} {
		args := b.ensure(b.Request(t, 1))
		change(&args)
		b.nothing(why, args)
	}
	overtaken := b.ensure(a)
	b.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return b.Allocations.Exhaust(t.Context(), tx, a, 1, "why")
	})
	b.nothing("it was given up", overtaken)
	b.nothing("it is a tombstone", b.ensure(a))

	if job := b.work(reconciler.EnsureAllocation{Allocation: ids.New[ids.Allocation](), Generation: 1, Fence: 1}); job.State != rivertype.JobStateCancelled {
		t.Errorf("unknown allocation: %s", job.State)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Releasing(t, 2)
	args := b.release(a)
	b.twice(args)
	if e, o := b.pendingTask(); e.Type != protocol.RevokeUser || e.Fence != 2 || o.User != a.Login || len(o.GPUs) != 2 {
		t.Errorf("ordered %+v %+v", e, o)
	}
	for why, change := range map[string]func(*reconciler.ReleaseAllocation){
		"another generation":    func(e *reconciler.ReleaseAllocation) { e.Generation++ },
		"another fence":         func(e *reconciler.ReleaseAllocation) { e.Fence-- },
		"another epoch":         func(e *reconciler.ReleaseAllocation) { e.Epoch++ },
		"it is declared by now": func(e *reconciler.ReleaseAllocation) { e.Generation = 0 },
	} {
		stale := args
		change(&stale)
		b.nothing(why, stale)
	}
	b.nothing("it is still wanted", b.release(b.Active(t, 1)))
	if job := b.work(reconciler.ReleaseAllocation{Allocation: ids.New[ids.Allocation](), Node: b.node, Fence: 3}); job.State != rivertype.JobStateCancelled {
		t.Errorf("unknown allocation: %s", job.State)
	}
}

// An allocation that a node still has after its object was deleted is released by the stored rows,
// since a node rejects a task without an account and devices.
func TestReleaseOfALeak(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Releasing(t, 2)
	b.reports(b.node, b.is(a, protocol.Gone))
	b.done(record(b, a, plan.CleanupProved))
	if b.state(a) != allocation.Released {
		t.Fatal(b.state(a))
	}
	b.twice(reconciler.ReleaseAllocation{Allocation: a.ID, Node: b.node, Fence: 3, Reason: "not desired"})
	if e, o := b.pendingTask(); e.Fence != 4 || o.User != a.Login || o.UID != a.HostUID || len(o.GPUs) != 2 {
		t.Errorf("ordered %+v %+v", e, o)
	}
}

func record(b *bundle, a allocation.Allocation, e plan.Trigger) reconciler.RecordAllocation {
	o := b.Declared(b.t, a.ID)
	return reconciler.RecordAllocation{Allocation: a.ID, Event: e, Generation: o.Generation, Fence: o.Fence, Reason: "why"}
}

// measured returns how many allocations were measured with a result.
func (b *bundle) measured(result string) (n uint64) {
	b.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b.deps.Metrics)
	families, err := registry.Gather()
	must(b.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "gpuaas_allocation_ready_seconds" && m.GetLabel()[0].GetValue() == result {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

func TestRecordNodeReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	args := record(b, a, plan.NodeReady)
	b.nothing("nothing was reported", args)
	other := b.is(a, protocol.Ready)
	other.SpecHash = "another"
	b.reports(b.node, other)
	b.nothing("it is ready with another spec", args)
	b.reports(b.node, b.is(a, protocol.Broken))
	b.nothing("it is broken", args)
	b.reports(b.node, b.is(a, protocol.Ready))
	b.exec(`UPDATE observed_nodes SET stale_at = now()`)
	b.nothing("the report is stale", args)
	b.exec(`UPDATE observed_nodes SET stale_at = now() + interval '1 min'`)
	b.exec(`UPDATE observed_allocations SET node_id = gen_random_uuid()`)
	b.nothing("another node reports it", args)
	b.exec(`UPDATE observed_allocations SET node_id = $1`, b.node)
	b.twice(args)
	if b.state(a) != allocation.Active || b.count(`SELECT count(*) FROM usage_records WHERE end_s IS NULL`) != 1 {
		t.Error(b.state(a))
	}
	if n := b.measured("active"); n != 1 {
		t.Errorf("its provisioning is measured %d times", n)
	}
	args.Fence--
	b.nothing("another fence", args)
	if job := b.work(reconciler.RecordAllocation{Allocation: ids.New[ids.Allocation](), Event: plan.NodeReady}); job.State != rivertype.JobStateCancelled {
		t.Errorf("unknown allocation: %s", job.State)
	}
}

// INV-03 and INV-46: slots are freed only by a proof of their own fence from their own node with
// nothing left.
func TestINV46RecordSlotsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Releasing(t, 2)
	args, proof := record(b, a, plan.CleanupProved), b.is(a, protocol.Gone)
	for why, change := range map[string]func(*protocol.AllocationReport){
		"it is there":              func(s *protocol.AllocationReport) { s.Phase = protocol.Ready },
		"no proof":                 func(s *protocol.AllocationReport) { s.Proof = nil },
		"something is left":        func(s *protocol.AllocationReport) { s.Proof.Leftovers = []string{"/home/u"} },
		"the proof is of fence 1":  func(s *protocol.AllocationReport) { s.Proof.Fence = 1 },
		"gone at the fence before": func(s *protocol.AllocationReport) { s.Fence, s.Proof.Fence = 1, 1 },
	} {
		b.exec(`DELETE FROM observed_allocations`)
		word, p := proof, *proof.Proof
		word.Proof = &p
		change(&word)
		b.reports(b.node, word)
		b.nothing(why, args)
	}
	b.exec(`DELETE FROM observed_allocations`)
	b.reports(b.node, proof)
	b.done(args)
	if b.state(a) != allocation.Released || b.count(`SELECT count(*) FROM slots WHERE status = 'clean'`) != 4 {
		t.Error(b.state(a))
	}
	if job := b.work(args); job.State != rivertype.JobStateCancelled { // nothing is declared any more
		t.Errorf("worked again: %s", job.State)
	}
}

// An allocation that became ready at the last moment does not fail. One on a node with stale
// reports does.
func TestRecordGaveUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	args := record(b, a, plan.Exhausted)
	b.reports(b.node, b.is(a, protocol.Ready))
	b.nothing("it is ready", args)
	b.exec(`UPDATE observed_nodes SET stale_at = now()`)
	b.Do(t, func(tx pgx.Tx) error {
		return b.deps.Observed.Failed(t.Context(), tx, b.node, protocol.Result{Allocation: a.ID, Fence: 1, Code: protocol.StepFailed, Message: "disk full"})
	})
	b.twice(args)
	got, err := b.Allocations.Get(t.Context(), b.Caller, a.ID)
	if err != nil || got.State != allocation.Failed || got.Message != "why: disk full" {
		t.Errorf("%s: %s, %v", got.State, got.Message, err)
	}
	if n := b.measured("failed"); n != 1 {
		t.Errorf("its provisioning is measured %d times", n)
	}

	r := b.Releasing(t, 1)
	args = record(b, r, plan.Exhausted)
	b.reports(b.node, b.is(r, protocol.Gone))
	b.nothing("it is gone", args)
	b.exec(`DELETE FROM observed_allocations`)
	b.twice(args)
	if b.state(r) != allocation.ReleaseFailed {
		t.Error(b.state(r))
	}
}

func TestRecordExpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	args := record(b, a, plan.Expired)
	b.twice(args)
	if b.state(a) != allocation.Releasing {
		t.Error(b.state(a))
	}
}

func TestRecordNode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	silent, back := reconciler.RecordNode{Node: b.node, Event: plan.ReportsStale}, reconciler.RecordNode{Node: b.node, Event: plan.ReportsResumed}
	b.nothing("it never spoke", silent)
	b.reports(b.node)
	b.nothing("it spoke again", silent)
	b.exec(`UPDATE observed_nodes SET stale_at = now()`)
	b.twice(silent)
	b.nothing("it is silent", back)
	b.reports(b.node)
	b.twice(back)
	if n, _, err := b.Inventory.Node(t.Context(), "node-1"); err != nil || n.Reachability != "reachable" || n.Lifecycle != "active" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.twice(reconciler.ProbeNode{Node: b.node, Reason: "why"})
	if e, _ := b.pendingTask(); e.Type != protocol.Probe {
		t.Errorf("%+v", e)
	}
	b.nothing("no node is meant", reconciler.ProbeNode{})
}

// Each kind is applied by its package once per generation, and deleted by it.
func TestCarry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for kind, c := range map[desired.Kind]struct{ spec, table string }{
		desired.KindSKU:          {`{"displayName":"A","gpuModel":"A100","memoryGiB":40,"isolation":"host_user","maxGPUs":4,"active":true,"price":{"currency":"EUR","amountMinor":5}}`, "sku_catalog"},
		desired.KindOSImage:      {`{"displayName":"U","digest":"sha256:00","default":false}`, "os_images"},
		desired.KindStorageClass: {`{"displayName":"S","price":{"currency":"EUR","amountMinor":3},"freeGiB":5,"retentionDays":14,"default":true}`, "storage_classes"},
		desired.KindNode:         {`{"sku":"h100","region":"eu1","onboarding":"manual","gpus":2}`, "nodes"},
		desired.KindPolicy:       {`{"key":"allocation.max_concurrent_per_user","scope":"platform","value":3}`, "policy_values"},
		desired.KindRole:         {`{"operations":["*"]}`, "observed_objects"},
		desired.KindEnvironment:  {`{"vendor":"v"}`, "observed_objects"},
	} {
		args := b.declare(kind, "thing", c.spec)
		if diff := b.twice(args); !strings.Contains(diff, "+ "+c.table+" ") || !strings.Contains(diff, "+ observed_objects ") {
			t.Errorf("%s: applied as\n%s", kind, diff)
		}
		stale := args
		stale.Generation--
		b.nothing("another generation", stale)
		b.exec(`UPDATE desired_objects SET deleted_at = now(), generation = generation + 1 WHERE uid = $1`, args.Object)
		args.Generation++
		b.twice(args)
		if n := b.count(`SELECT count(*) FROM observed_objects WHERE uid = $1 AND gone AND generation = 2`, args.Object); n != 1 {
			t.Errorf("%s is not known to be gone", kind)
		}
		if job := b.work(reconciler.ApplyObject{ObjectKind: kind, Object: ids.New[ids.Object]().UUID, Generation: 1}); job.State != rivertype.JobStateCancelled {
			t.Errorf("%s that does not exist: %s", kind, job.State)
		}
	}
}

// INV-19 and INV-20: effect and end of a job are one commit. When the commit fails
// neither is there, and the next try does both.
func TestINV20OneCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ trigger, table string }{
		"the effect fails at the commit": {`CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON node_tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`, "node_tasks"},
		"the job's end fails":            {`CREATE TRIGGER dies BEFORE UPDATE ON river.river_job FOR EACH ROW WHEN (NEW.state = 'completed') EXECUTE FUNCTION fail()`, "river.river_job"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a := b.Request(t, 1)
			b.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''the process ends here''; END'`)
			b.exec(c.trigger)
			args := b.ensure(a)
			diff := pgtest.Diff(t, b.DB)
			if job := b.work(args); job.FinalizedAt != nil || diff() != "" {
				t.Errorf("the job is %s, and it left\n%s", job.State, diff())
			}
			b.exec(`DROP TRIGGER dies ON ` + c.table)
			b.exec(`DELETE FROM river.river_job WHERE state <> 'running'`) // INV-21: lost, and requested again
			b.done(args)
			if b.count(`SELECT count(*) FROM node_tasks`) != 1 || b.state(a) != allocation.Provisioning {
				t.Error(b.state(a))
			}
		})
	}
}

// Maintenance deletes idempotency keys that are older than a day, and no others.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO idempotency_keys (principal, method, route, key, body_hash, status, created_at)
		SELECT $1, 'POST', '/', i::text, '', 201, now() - i * interval '10 hours' FROM generate_series(1, 5) i`, b.Caller.User)
	b.done(jobs.Maintenance{})
	if n := b.count(`SELECT count(*) FROM idempotency_keys`); n != 2 {
		t.Errorf("%d are left", n)
	}
}

// A job seals the existing rows. A concurrent or later job seals nothing more.
func TestSealAudit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Request(t, 1)
	// The horizon is the horizon of the whole cluster. Transactions of other tests may delay the seal of
	// some rows, so one seal is not yet all of them.
	until := time.Now().Add(10 * time.Second)
	for {
		b.done(jobs.SealAudit{})
		r, err := b.deps.Audit.Verify(t.Context(), ids.Tenant{}, nil)
		if err == nil && r.Unsealed == 0 && len(r.Chains) > 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("not everything was sealed: %+v, %v", r, err)
		}
	}
	b.nothing("all is sealed", jobs.SealAudit{})
	r, err := b.deps.Audit.Verify(t.Context(), b.Caller.Tenant, nil)
	rows := b.count(`SELECT count(*) FROM audit_logs WHERE org_id = $1`, b.Caller.Tenant)
	if err != nil || !r.OK() || len(r.Chains) != 1 || rows == 0 || r.Chains[0].Rows != int64(rows) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Housekeeping makes partitions of every month that it may be away for, so that
// the first row of a month has its place.
func TestMaintenanceCreatesPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`DO $$ DECLARE part text; BEGIN
		FOR part IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'audit_logs'::regclass ORDER BY 1 OFFSET 1 LOOP
			EXECUTE 'DROP TABLE ' || part;
		END LOOP; END $$`) // as a server finds it that was away for a quarter
	const first = `INSERT INTO audit_logs (id, at, actor, action, target_urn)
		VALUES (gen_random_uuid(), date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => $1), 'a', 'b', 'c')`
	if _, err := b.DB.Exec(t.Context(), first, 1); err == nil {
		t.Fatal("the month has a partition already")
	}
	b.done(jobs.Maintenance{})
	for month := range 4 {
		b.exec(first, month)
	}
	if _, err := b.DB.Exec(t.Context(), first, 4); err == nil {
		t.Error("there is no end of partitions")
	}
}
