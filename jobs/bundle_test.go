package jobs_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
	"github.com/gpuaas/gpuaas/services"
)

// bundle is a world with workers at work. What the loop would enqueue the test
// enqueues itself.
type bundle struct {
	*allocationtest.Fixture

	t        *testing.T
	deps     *jobs.Deps
	client   *river.Client[pgx.Tx]
	rekeys   *river.Client[pgx.Tx] // of the service of SSH keys; nil enqueues nothing
	node     ids.Node
	sequence int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupPaying(t, nil)
}

// setupPaying is setup with a payment provider.
func setupPaying(t *testing.T, provider payment.Provider) *bundle {
	t.Helper()
	w := allocationtest.New(t, 1_000_000)
	signer, err := secret.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	s, err := services.New(services.Config{
		DB: w.DB, Policies: &policies.Client{DB: w.DB, Hints: w.Hints, Log: quiet}, Hints: w.Hints, Naming: ids.DefaultNaming, Log: quiet,
		ReleaseKeys: func() map[string][]byte { return nil }, PaymentMetrics: payment.NewMetrics(), PublicURL: func() string { return "https://gpuaas.example" },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Desired, s.Allocations, s.NodeHealth, s.Catalog, s.Ledger = &revision.Store{Store: w.Desired}, w.Allocations, w.Inventory, w.Catalog, w.Ledger
	b := &bundle{Fixture: w, t: t, deps: &jobs.Deps{
		Services: s, Policy: jobs.PolicyFrom(s.Policies),
		Tasks: &nodetask.Store{DB: w.DB, Signer: signer, Hints: w.Hints}, Development: true, Metrics: reconciler.NewMetrics(), Log: quiet,
	}}
	b.deps.Window, b.deps.ObservationStale = func() time.Duration { return time.Hour }, func() time.Duration { return 5 * time.Minute }
	b.deps.DriftRules = func() map[desired.Kind]plan.Rule { return nil }
	b.deps.Billing = &billing.Service{
		DB: w.DB, Identity: w.Allocations.Identity, Ledger: w.Ledger, Metering: b.deps.Metering, Running: w.Allocations,
		Payments: &payment.Service{DB: w.DB}, Metrics: billing.NewMetrics(),
		Policy: func(ids.Tenant, ids.Project) policies.View { return policies.Snapshot{}.For() },
		Naming: ids.DefaultNaming, Hints: w.Hints,
	}
	if provider != nil {
		b.deps.Payments = &payment.Service{
			DB: w.DB, Provider: provider, Identity: w.Allocations.Identity, Ledger: w.Ledger, Naming: ids.DefaultNaming, Hints: w.Hints,
			Limits: func(identity.Caller) payment.Limits {
				return payment.Limits{Min: 500, Max: 500_000, SessionTTL: time.Hour, RefundWindow: 30 * 24 * time.Hour, AutoTopup: true}
			},
			PublicURL: func() string { return "https://gpuaas.example" }, Metrics: payment.NewMetrics(),
		}
		b.deps.AutoTopups = autotopup.New(b.deps.Payments)
	}
	b.node = w.Node(t, "node-1", 4)
	b.client, err = river.NewClient(riverpgxv5.New(w.DB), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, Workers: jobs.Workers(b.deps), FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 200 * time.Millisecond,
		TestOnly: true, Queues: map[string]river.QueueConfig{
			reconciler.QueueProvision: {MaxWorkers: 2}, reconciler.QueueRecord: {MaxWorkers: 2}, keys.QueueAccess: {MaxWorkers: 2}, "billing": {MaxWorkers: 1}, "maintenance": {MaxWorkers: 1}, forge.QueueForge: {MaxWorkers: 2}, riverjob.QueueNotify: {MaxWorkers: 4}, riverjob.QueueWebhook: {MaxWorkers: 4}, evidence.QueueEvidence: {MaxWorkers: 2},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.deps.Payments != nil {
		b.deps.Payments.Jobs = b.client
	}
	s.Queue, s.Evidence.Jobs, s.Evidence.Identity, s.Evidence.Signer, s.Evidence.Environment = b.client, b.client, w.Allocations.Identity, signer, "test"
	s.Evidence.Files = fileStore(t)
	s.WebhookEndpoints.Jobs, s.WebhookEndpoints.Sender, s.WebhookEndpoints.Seal = b.client, webhook.NewSender(true), webhookSeal()
	if err := b.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-b.client.Stopped() }) // the test's context has ended it
	return b
}

// work has one job worked, and returns how it ended.
func (b *bundle) work(args river.JobArgs) *rivertype.JobRow {
	b.t.Helper()
	inserted, err := b.client.Insert(b.t.Context(), args, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	// The job's row is polled, because it is updated before River publishes the event of a job that
	// was completed in its own transaction.
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		job, err := b.client.JobGet(b.t.Context(), inserted.Job.ID)
		if err != nil {
			b.t.Fatal(err)
		}
		if job.FinalizedAt != nil || len(job.Errors) > 0 {
			return job
		}
	}
	b.t.Fatalf("%s did not end", args.Kind())
	return nil
}

// done has it worked and expects it to be completed.
func (b *bundle) done(args river.JobArgs) {
	b.t.Helper()
	if job := b.work(args); job.State != rivertype.JobStateCompleted {
		b.t.Fatalf("%s ended as %s: %+v", args.Kind(), job.State, job.Errors)
	}
}

// twice expects that working it again changes nothing, and returns what the first
// time changed.
func (b *bundle) twice(args river.JobArgs) string {
	b.t.Helper()
	// An applied object is marked due, and one that is due already is not marked twice.
	diff := pgtest.Diff(b.t, b.DB, pgtest.Without("reconcile_due"), pgtest.Mask("observed_at", "updated_at"))
	b.done(args)
	first := diff()
	b.done(args)
	if second := diff(); withoutTimes(second) != withoutTimes(first) {
		b.t.Errorf("%s worked twice:\n%s\nonce:\n%s", args.Kind(), second, first)
	}
	return first
}

// withoutTimes leaves out rows of which only a time has changed.
func withoutTimes(diff string) string {
	var kept []string
	for line := range strings.Lines(diff) {
		if !strings.HasSuffix(strings.TrimSpace(line), "…") || strings.Count(line, " → ") > 2 {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// nothing expects that the job completes without any effect.
func (b *bundle) nothing(why string, args river.JobArgs) {
	b.t.Helper()
	diff := pgtest.Diff(b.t, b.DB)
	b.done(args)
	if left := diff(); left != "" {
		b.t.Errorf("%s, and yet %s changed\n%s", why, args.Kind(), left)
	}
}

// reports makes the node report these allocations.
func (b *bundle) reports(node ids.Node, seen ...protocol.AllocationReport) {
	b.t.Helper()
	b.sequence++
	b.Do(b.t, func(tx pgx.Tx) error {
		r := allocationtest.Report(node, 4)
		r.Sequence, r.Allocations = b.sequence, seen
		_, err := b.deps.Observed.Report(b.t.Context(), tx, node, r, time.Minute)
		return err
	})
}

// is returns a node's report for the present spec.
func (b *bundle) is(a allocation.Allocation, phase protocol.Phase) protocol.AllocationReport {
	o := b.Declared(b.t, a.ID)
	seen := protocol.AllocationReport{Allocation: a.ID, Phase: phase, Fence: o.Fence, Generation: o.Generation, SpecHash: o.SpecHash}
	if phase == protocol.Gone {
		p := allocationtest.Proof(o.Fence)
		for i := range 4 {
			p.Scrubbed = append(p.Scrubbed, allocationtest.GPU(b.node, i))
		}
		seen.Proof = &p
	}
	return seen
}

func (b *bundle) ensure(a allocation.Allocation) reconciler.EnsureAllocation {
	o := b.Declared(b.t, a.ID)
	return reconciler.EnsureAllocation{Allocation: a.ID, Generation: o.Generation, Fence: o.Fence, Epoch: o.Epoch, Reason: "why"}
}

func (b *bundle) release(a allocation.Allocation) reconciler.ReleaseAllocation {
	o := b.Declared(b.t, a.ID)
	return reconciler.ReleaseAllocation{Allocation: a.ID, Node: a.Node, Generation: o.Generation, Fence: o.Fence, Epoch: o.Epoch, Reason: "why"}
}

func (b *bundle) state(a allocation.Allocation) allocation.State {
	b.t.Helper()
	now, err := b.Allocations.Get(b.t.Context(), b.Caller, a.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return now.State
}

// pendingTask returns the pending task of the node after the node has verified it.
func (b *bundle) pendingTask() (protocol.Envelope, protocol.AllocationParams) {
	b.t.Helper()
	taken, err := b.deps.Tasks.Next(b.t.Context(), b.node)
	signed, ok := taken[b.node]
	if err != nil || !ok {
		b.t.Fatalf("nothing waits for the node: %v", err)
	}
	e, err := protocol.Open(signed, b.deps.Tasks.Signer.(secret.Signer).Public())
	if err != nil {
		b.t.Fatal(err)
	}
	o, err := e.AllocationParams()
	if err != nil {
		b.t.Fatalf("the node rejects it: %v", err)
	}
	return e, o
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.DB.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.DB.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// declare puts an object of a kind that needs no node, and returns its job.
func (b *bundle) declare(kind desired.Kind, name, spec string) reconciler.ApplyObject {
	b.t.Helper()
	var o desired.Object
	b.Do(b.t, func(tx pgx.Tx) (err error) {
		o, err = b.Desired.Put(b.t.Context(), tx, desired.Object{Kind: kind, Name: name, Spec: []byte(spec)})
		return err
	})
	return reconciler.ApplyObject{ObjectKind: kind, Object: o.UID.UUID, Generation: o.Generation, Epoch: o.Epoch, Reason: "declared"}
}
