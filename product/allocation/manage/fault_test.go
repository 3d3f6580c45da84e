package manage_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/protocol"
)

// A report of a tenant changes nothing until an operator confirms it. Then the GPU is unhealthy, and the charges since the
// report are credited.
func TestAConfirmedFaultIsCreditedFromTheReport(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs = jobs
	node := w.Node(t, "node-1", 1)
	a := w.Active(t, 1)
	// The interval began ten minutes ago. Its rows are append-only, except for the owner of the table.
	w.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; UPDATE usage_records SET start_s = start_s - 600`)
		return err
	})
	change := func(c identity.Caller) identity.Change[manage.FaultReport] {
		return identity.Change[manage.FaultReport]{Caller: c}
	}
	if _, err := s.ReportFault(t.Context(), change(w.Caller), a, "GPU-other", "wrong sums"); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("a GPU of others: %v", err)
	}
	r, err := s.ReportFault(t.Context(), change(w.Caller), a, allocationtest.GPU(node, 0), "wrong sums")
	if err != nil || r.Status != "open" {
		t.Fatalf("%+v, %v", r, err)
	}
	if paused := queryOne[string](t, w, `SELECT paused FROM allocations`); paused != "" {
		t.Errorf("the report alone pauses the charges: %s", paused)
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE fault_reports SET reported_at = now() - interval '5 minutes'`); err != nil {
		t.Fatal(err)
	}
	got, err := s.DecideFault(t.Context(), change(w.Operator), r.ID, true, "reproduced")
	if err != nil || got.Status != "confirmed" || got.DecidedBy != w.Operator.Actor() {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.DecideFault(t.Context(), change(w.Operator), r.ID, false, "again"); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a second decision: %v", err)
	}
	if health := queryOne[string](t, w, `SELECT health FROM gpus`); health != "unhealthy" {
		t.Errorf("the GPU is %s", health)
	}
	w.Do(t, func(tx pgx.Tx) error { return s.CreditConfirmed(t.Context(), tx, r.ID) })
	if seconds := queryOne[int64](t, w, `SELECT coalesce(sum(to_s - from_s), 0) FROM usage_credits`); seconds < 295 || seconds > 310 {
		t.Errorf("%d seconds are credited", seconds)
	}
	list, err := s.Faults(t.Context(), "confirmed", uuid.Nil, 10)
	if err != nil || len(list) != 1 || list[0].ID != r.ID {
		t.Errorf("%v, %v", list, err)
	}
	if open, err := s.Faults(t.Context(), "open", uuid.Nil, 10); err != nil || len(open) != 0 {
		t.Errorf("%v, %v", open, err)
	}
}

// A credit that is late neither stops the interval of a GPU that is healthy again nor credits its time. A pause after
// it credits the rest.
func TestALateCreditStopsNothing(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs = jobs
	node, change := w.Node(t, "node-1", 1), func(c identity.Caller) identity.Change[manage.FaultReport] {
		return identity.Change[manage.FaultReport]{Caller: c}
	}
	a := w.Active(t, 1)
	r, err := s.ReportFault(t.Context(), change(w.Caller), a, allocationtest.GPU(node, 0), "wrong sums")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DecideFault(t.Context(), change(w.Operator), r.ID, true, "reproduced"); err != nil {
		t.Fatal(err)
	}
	// Used for 600 seconds, reported 500 seconds ago, decided 200 seconds ago, and healthy since.
	w.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; UPDATE usage_records SET start_s = start_s - 600;
			UPDATE fault_reports SET reported_at = now() - interval '500 seconds', decided_at = now() - interval '200 seconds'`)
		return err
	})
	for range 2 {
		w.Do(t, func(tx pgx.Tx) error { return s.CreditConfirmed(t.Context(), tx, r.ID) })
		if n := queryOne[int64](t, w, `SELECT count(*) FROM usage_records JOIN allocations a ON a.id = allocation_id WHERE end_s IS NULL AND a.paused = ''`); n != 1 {
			t.Fatal("the credit has stopped the charges")
		}
	}
	credited := func() int64 {
		return queryOne[int64](t, w, `SELECT coalesce(sum(to_s - from_s), 0)::bigint FROM usage_credits`)
	}
	if n := credited(); n < 299 || n > 301 {
		t.Errorf("%d seconds are credited", n)
	}
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		_, err := w.Allocations.Pause(t.Context(), tx, a, metering.NodeUnhealthy, metering.Observation{ObservedAt: time.Now().Add(-400 * time.Second)})
		return err
	})
	if n := credited(); n < 495 || n > 510 {
		t.Errorf("%d seconds are credited after a pause of what was partly credited", n)
	}
}

// A confirmed fault is credited at most once, whatever has happened to the meter since the report.
func TestAConfirmedFaultIsCreditedAfterTheMeterHasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do       func(*testing.T, *allocationtest.Fixture, allocation.Allocation)
		seconds  int64 // credited by the report, of about 300
		credited int64 // with what a pause has credited before
	}{
		"paused since": {func(t *testing.T, w *allocationtest.Fixture, a allocation.Allocation) {
			w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
				_, err := w.Allocations.Pause(t.Context(), tx, a, metering.ObservationStale, metering.Observation{ObservedAt: time.Now().Add(-100 * time.Second)})
				return err
			})
		}, 200, 300},
		"repriced since": {func(t *testing.T, w *allocationtest.Fixture, _ allocation.Allocation) {
			w.Do(t, func(tx pgx.Tx) error {
				b := &pgx.Batch{}
				metering.QueueReprice(b, "h100", "EUR", 500)
				return tx.SendBatch(t.Context(), b).Close()
			})
		}, 300, 300},
		"released since": {func(t *testing.T, w *allocationtest.Fixture, a allocation.Allocation) {
			if _, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil); err != nil {
				t.Fatal(err)
			}
		}, 300, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := managed(t)
			jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
			if err != nil {
				t.Fatal(err)
			}
			s.Jobs = jobs
			node := w.Node(t, "node-1", 1)
			a := w.Active(t, 1)
			change := func(c identity.Caller) identity.Change[manage.FaultReport] {
				return identity.Change[manage.FaultReport]{Caller: c}
			}
			r, err := s.ReportFault(t.Context(), change(w.Caller), a, allocationtest.GPU(node, 0), "wrong sums")
			if err != nil {
				t.Fatal(err)
			}
			w.Do(t, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; UPDATE usage_records SET start_s = start_s - 600;
					UPDATE fault_reports SET reported_at = now() - interval '5 minutes'`)
				return err
			})
			c.do(t, w, a)
			before := queryOne[int64](t, w, `SELECT coalesce(sum(to_s - from_s), 0)::bigint FROM usage_credits`)
			if _, err := s.DecideFault(t.Context(), change(w.Operator), r.ID, true, "reproduced"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				w.Do(t, func(tx pgx.Tx) error { return s.CreditConfirmed(t.Context(), tx, r.ID) })
			}
			after := queryOne[int64](t, w, `SELECT coalesce(sum(to_s - from_s), 0)::bigint FROM usage_credits`)
			if after < c.credited-5 || after > c.credited+10 || after-before < c.seconds-5 {
				t.Errorf("%d seconds are credited, %d of them before the report", after, before)
			}
			// The ledger has exactly the credits, and none is above the charge.
			credits := queryOne[int64](t, w, `SELECT coalesce(sum(amount_minor), 0)::bigint FROM usage_credits`)
			if posted := queryOne[int64](t, w, `SELECT coalesce(sum(amount_minor), 0)::bigint FROM ledger_transfers WHERE kind = 'fault_credit'`); posted != credits || credits == 0 {
				t.Errorf("%d are credited, %d are posted", credits, posted)
			}
		})
	}
}

// Each tenant on the node receives a notice with its own allocations and without the name of the node.
func TestRetirementIsAnnouncedToTheTenants(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	w.Node(t, "node-1", 2)
	a := w.Active(t, 1)
	change := identity.Change[fleet.Node]{Caller: w.Operator}
	if _, err := s.AnnounceRetirement(t.Context(), change, "node-1", "old", time.Now().Add(-time.Hour)); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("in the past: %v", err)
	}
	at := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	n, err := s.AnnounceRetirement(t.Context(), change, "node-1", "end of life", at)
	if err != nil || n.RetiresAt == nil || !n.RetiresAt.Equal(at) || n.RetiresReason != "end of life" {
		t.Fatalf("%+v, %v", n, err)
	}
	contract, err := asyncapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.DB.Query(t.Context(), `SELECT coalesce(org_id::text, ''), payload FROM outbox_events WHERE subject = 'fleet.node_retiring' ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	var tenant, payload string
	seen := map[string]string{}
	if _, err := pgx.ForEachRow(rows, []any{&tenant, &payload}, func() error {
		seen[tenant] = payload
		return contract.Payload("fleet.node_retiring", []byte(payload))
	}); err != nil {
		t.Fatal(err)
	}
	own := seen[a.Tenant.String()]
	if len(seen) != 2 || !strings.Contains(own, a.ID.String()) || strings.Contains(own, "node-1") || !strings.Contains(seen[""], "node-1") {
		t.Errorf("%v", seen)
	}
}

// The proof that ended an allocation is stored, and is verified without the server. One changed byte, another key, another
// allocation or a GPU that was not overwritten is found.
func TestAReleaseProofIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	node := w.Node(t, "node-1", 1)
	a := w.Releasing(t, 1)
	if _, err := s.Proof(t.Context(), a.ID); errs.CodeOf(err) != errs.ProofMissing {
		t.Errorf("before: %v", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE nodes SET proof_key = $1`, []byte(public)); err != nil {
		t.Fatal(err)
	}
	gpus := []string{allocationtest.GPU(node, 0)}
	signed := allocationtest.Proof(2, gpus...)
	signed.Node, signed.Allocation, signed.Type, signed.At = node, a.ID, protocol.RevokeUser, time.Now()
	if err := signed.Sign(private); err != nil {
		t.Fatal(err)
	}
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error { return s.SlotsGone(t.Context(), tx, a, signed) })
	p, err := s.Proof(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := manage.VerifyProof(p.Document, p.PublicKey, a.ID.UUID, gpus); err != nil {
		t.Errorf("the proof as it is: %v", err)
	}
	changed := signed
	changed.Checks = append([]string{"invented"}, changed.Checks...)
	text, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := ed25519.GenerateKey(rand.Reader)
	for rule, err := range map[string]error{
		"a changed proof":    manage.VerifyProof(text, p.PublicKey, a.ID.UUID, gpus),
		"another key":        manage.VerifyProof(p.Document, other, a.ID.UUID, gpus),
		"another allocation": manage.VerifyProof(p.Document, p.PublicKey, ids.New[ids.Allocation]().UUID, gpus),
		"another GPU":        manage.VerifyProof(p.Document, p.PublicKey, a.ID.UUID, append(gpus, "GPU-x")),
		"no proof":           manage.VerifyProof([]byte(`{}`), p.PublicKey, a.ID.UUID, gpus),
	} {
		if err == nil {
			t.Errorf("%s is accepted", rule)
		}
	}
}

// A GPU is reset only while no allocation has it and none can get it.
func TestOnlyAnIdleGPUIsReset(t *testing.T) {
	t.Parallel()
	w, _ := managed(t)
	jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	w.Inventory.Jobs = jobs
	node := w.Node(t, "node-1", 2)
	a := w.Active(t, 1)
	claimed := queryOne[string](t, w, `SELECT s.gpu_uuid FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1`, a.ID)
	free := queryOne[string](t, w, `SELECT gpu_uuid FROM slots WHERE node_id = $1 AND status = 'clean'`, node)
	reset := func(gpu string) error {
		_, err := w.Inventory.ResetGPU(t.Context(), identity.Change[fleet.Node]{Caller: w.Operator}, "node-1", gpu, "XID 95")
		return err
	}
	for rule, c := range map[string]struct {
		gpu  string
		want errs.Code
	}{"of a tenant": {claimed, errs.NodeInUse}, "for sale": {free, errs.NodeInUse}, "of no node": {"GPU-x", errs.NotFound}} {
		if err := reset(c.gpu); errs.CodeOf(err) != c.want {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE slots SET status = 'quarantined' WHERE gpu_uuid = $1`, free); err != nil {
		t.Fatal(err)
	}
	if err := reset(free); err != nil {
		t.Fatal(err)
	}
	if args := queryOne[string](t, w, `SELECT args->>'gpu' FROM river.river_job WHERE kind = 'reset_gpu'`); args != free {
		t.Errorf("the job resets %s", args)
	}
}

// Only an administrator marks a whole node as unhealthy. A faulty GPU is marked although its tenant has left.
func TestAConfirmedFaultOutlivesTheAllocation(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	jobs, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs = jobs
	node := w.Node(t, "node-1", 1)
	a := w.Active(t, 1)
	change := func(c identity.Caller) identity.Change[manage.FaultReport] {
		return identity.Change[manage.FaultReport]{Caller: c}
	}
	operator := w.Operator
	operator.Role = "operator"
	whole, err := s.ReportFault(t.Context(), change(w.Caller), a, "", "no network")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DecideFault(t.Context(), change(operator), whole.ID, true, "x"); errs.CodeOf(err) != errs.Forbidden {
		t.Errorf("an operator marks a node: %v", err)
	}
	if _, err := s.DecideFault(t.Context(), change(operator), whole.ID, false, "x"); err != nil {
		t.Fatal(err)
	}
	r, err := s.ReportFault(t.Context(), change(w.Caller), a, allocationtest.GPU(node, 0), "wrong sums")
	if err != nil {
		t.Fatal(err)
	}
	w.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; UPDATE allocations SET status = 'releasing'`)
		return err
	})
	if _, err := s.DecideFault(t.Context(), change(operator), r.ID, true, "x"); err != nil {
		t.Fatal(err)
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM health_reports WHERE source = 'operator' AND check_id = 'tenant_report'`); n != 1 {
		t.Errorf("%d GPUs are marked", n)
	}
}
