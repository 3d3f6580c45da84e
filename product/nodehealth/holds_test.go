package nodehealth_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// operators turns a bundle into one whose verbs can be called.
func operators(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.Hints, b.Clock = &hint.Bus{}, clock.Clock{}
	b.Grace = func(string) time.Duration { return time.Hour }
	return b
}

type person struct {
	identity.Change[fleet.Node]
}

func operator() person {
	return person{identity.Change[fleet.Node]{Caller: identity.Caller{User: ids.New[ids.User]()}}}
}

func (p person) slot() identity.Change[slots.Slot] {
	return identity.Change[slots.Slot]{Caller: p.Caller}
}

// activeHolds returns the active holds of node n, as "kind cause reason".
func (b *bundle) activeHolds() string {
	b.t.Helper()
	n, _, err := b.Node(b.t.Context(), "n")
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for _, h := range n.Holds {
		list = append(list, fmt.Sprintf("%s %s %s", h.Kind, h.Cause, h.Reason))
	}
	return fmt.Sprintf("%t %s", n.Cordoned, strings.Join(list, ", "))
}

func (b *bundle) must(_ fleet.Node, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// A node may have several holds; only the actor who set a hold can lift it.
func TestOnlyTheOwnerLiftsAHold(t *testing.T) {
	t.Parallel()
	b := operators(t)
	b.node("n")
	ada, bob := operator(), operator()
	b.must(b.Cordon(t.Context(), ada.Change, "n", "fans", nil))
	b.must(b.Cordon(t.Context(), ada.Change, "n", "louder fans", nil)) // the same hold, with another reason
	if got := b.activeHolds(); got != "true cordon operator louder fans" {
		t.Errorf("holds: %s", got)
	}
	if _, err := b.Uncordon(t.Context(), bob.Change, "n", false); errs.CodeOf(err) != errs.DrainOwnedByOther {
		t.Errorf("another operator lifts it: %v", err)
	}
	b.must(b.Drain(t.Context(), bob.Change, "n", "board swap", nil))
	b.must(b.Uncordon(t.Context(), ada.Change, "n", false))
	if got := b.activeHolds(); got != "true drain operator board swap" {
		t.Errorf("after its owner has lifted one, holds: %s", got)
	}
	if _, err := b.claim(1); errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("sold while it drains: %v", err)
	}
	b.must(b.Uncordon(t.Context(), ada.Change, "n", true))
	if got := b.activeHolds(); got != "false " {
		t.Errorf("after an admin has lifted all, holds: %s", got)
	}
	if _, err := b.claim(1); err != nil {
		t.Errorf("not sold again: %v", err)
	}
	if _, err := b.Cordon(t.Context(), ada.Change, "m", "fans", nil); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a node that is not there: %v", err)
	}
}

// A cordon ends by itself, at its time and without anybody's help; the loop writes it
// down afterwards.
func TestACordonEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	b := operators(t)
	id := b.node("n")
	soon := time.Now().Add(time.Hour)
	b.must(b.Cordon(t.Context(), operator().Change, "n", "fans", &soon))
	if _, err := b.claim(1); err == nil {
		t.Error("sold while it is cordoned")
	}
	b.exec(`UPDATE holds SET deadline = now() - interval '1 second'`)
	b.exec(`UPDATE slots SET held_until = now() - interval '1 second'`)
	b.Refresh(slots.Wanted{SKU: "h100"})
	if _, err := b.claim(1); err != nil {
		t.Errorf("active past its end: %v", err)
	}
	if got := b.activeHolds(); got != "false " {
		t.Errorf("holds: %s", got)
	}
	b.do(func(tx pgx.Tx) error { return b.EndExpiredHolds(t.Context(), tx, id) })
	var by string
	if err := b.db.QueryRow(t.Context(), `SELECT lifted_by FROM holds`).Scan(&by); err != nil || by != "system:deadline" {
		t.Errorf("lifted by %q: %v", by, err)
	}
	past := time.Now().Add(-time.Minute)
	if _, err := b.Cordon(t.Context(), operator().Change, "n", "fans", &past); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("a cordon that has ended before it began: %v", err)
	}
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// wide is a node with so many GPUs.
func (b *bundle) wide(name string, gpus int) ids.Node {
	b.t.Helper()
	id := ids.New[ids.Node]()
	b.declare(id, name, nil)
	r := protocol.Report{Complete: true}
	for i := range gpus {
		r.Inventory.GPUs = append(r.Inventory.GPUs, protocol.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", name, i), Model: "H100", MemoryMiB: 81559, Health: protocol.Healthy})
	}
	b.report(id, r)
	return id
}

// A hundred claims wait for slots that a cordon has locked. When the cordon commits, none of them gets
// its slot, although each has chosen it from a cache in which it was free.
func TestACordonedNodeReceivesNoAllocation(t *testing.T) {
	t.Parallel()
	const claims = 100
	b := operators(t)
	id := b.wide("n", claims)
	chosen := make([]slots.Placement, claims)
	for i := range chosen {
		var err error
		if chosen[i], err = b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 1}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var claiming sync.WaitGroup
	refused := make([]error, claims)
	b.do(func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		fleet.QueueHold(batch, fleet.Hold{Node: id, Kind: fleet.Cordon, Cause: fleet.ByOperator, Owner: "user:ada", Reason: "fans"})
		if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
			return err
		}
		for i, one := range chosen {
			claiming.Go(func() { _, refused[i] = b.claimSlots(one) })
		}
		return b.untilSomeWait(tx)
	})
	claiming.Wait()
	for i, err := range refused {
		if errs.CodeOf(err) != errs.SKUUnavailable {
			t.Fatalf("claim %d: %v", i, err)
		}
	}
}

// untilSomeWait returns when claims wait for locks of the given transaction.
func (b *bundle) untilSomeWait(tx pgx.Tx) error {
	for {
		var waiting int
		if err := tx.QueryRow(b.t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&waiting); err != nil || waiting > 0 {
			return err
		}
	}
}

// The other way round: a cordon waits for a claim that was faster, and commits after
// it.
func TestACordonWaitsForAClaim(t *testing.T) {
	t.Parallel()
	b := operators(t)
	b.node("n")
	chosen, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 1}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cordoned := make(chan error, 1)
	b.do(func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		slots.QueueClaim(batch, ids.New[ids.Allocation](), chosen)
		if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
			return err
		}
		go func() {
			_, err := b.Cordon(t.Context(), operator().Change, "n", "fans", nil)
			cordoned <- err
		}()
		return b.untilSomeWait(tx)
	})
	if err := <-cordoned; err != nil {
		t.Fatal(err)
	}
	if got := b.slots(); got != "claimed, clean" && got != "clean, claimed" {
		t.Errorf("slots %s", got)
	}
	if _, err := b.claim(1); err == nil {
		t.Error("the other slot was sold after the cordon")
	}
}

// A slot that is added to a node with a hold is not for sale either.
func TestNewSlotsOfAHeldNodeAreHeld(t *testing.T) {
	t.Parallel()
	b := operators(t)
	id := ids.New[ids.Node]()
	b.declare(id, "n", nil)
	b.must(b.Cordon(t.Context(), operator().Change, "n", "not burnt in", nil))
	b.report(id, report("n"))
	if _, err := b.claim(1); errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("sold: %v", err)
	}
}

// A quarantined slot stays with its claim, is not sold after the release, and returns to sale only with
// a proof.
func TestQuarantineAndClear(t *testing.T) {
	t.Parallel()
	b := operators(t)
	b.node("n")
	held, err := b.claim(2)
	if err != nil {
		t.Fatal(err)
	}
	ada := operator()
	_, devices, err := b.Node(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	first, second := ids.From[ids.Slot](*devices[0].Slot), ids.From[ids.Slot](*devices[1].Slot)
	if s, err := b.QuarantineSlot(t.Context(), ada.slot(), first, "ECC errors"); err != nil || s.Status != "claimed" {
		t.Errorf("%+v: %v", s, err)
	}
	b.free(held, protocol.Proof{Fence: 2, Scrubbed: []string{"n-g0"}}) // nothing proves g1
	if got := b.slots(); got != "quarantined quarantined by an operator, quarantined no scrub proof" {
		t.Errorf("slots %s", got)
	}
	if _, err := b.ClearSlot(t.Context(), ada.slot(), second, "inspected"); errs.CodeOf(err) != errs.ProofMissing {
		t.Errorf("cleared without a proof: %v", err)
	}
	if s, err := b.ClearSlot(t.Context(), ada.slot(), first, "replaced"); err != nil || s.Status != "clean" {
		t.Errorf("%+v: %v", s, err)
	}
	if _, err := b.ClearSlot(t.Context(), ada.slot(), ids.New[ids.Slot](), "x"); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a slot that is not there: %v", err)
	}
}

func (b *bundle) life() string {
	b.t.Helper()
	n, _, err := b.Node(b.t.Context(), "n")
	if err != nil {
		b.t.Fatal(err)
	}
	return n.Lifecycle
}

// A drain makes its steps one by one, each only while it is due, and ends with the last claim.
func TestADrainIsObserved(t *testing.T) {
	t.Parallel()
	b := operators(t)
	id := b.node("n")
	held, err := b.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	ada := operator()
	step := func(do func(tx pgx.Tx) error, want string) {
		t.Helper()
		b.do(do)
		if got := b.life(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	begin := func(tx pgx.Tx) error { return b.DrainStarted(t.Context(), tx, id) }
	end := func(tx pgx.Tx) error { return b.Drained(t.Context(), tx, id) }
	off := func(tx pgx.Tx) error { return b.DrainCancelled(t.Context(), tx, id) }
	step(begin, "active") // no drain in effect
	b.must(b.Drain(t.Context(), ada.Change, "n", "board swap", nil))
	step(end, "active")
	step(begin, "draining")
	step(off, "draining")
	step(end, "draining") // it has a claim
	b.do(func(tx pgx.Tx) error {
		l, leaves, err := b.Eviction(t.Context(), tx, held)
		if err == nil && (!leaves || l.Why != "board swap" || !l.At.After(time.Now())) {
			t.Errorf("leaves %t: %+v", leaves, l)
		}
		return err
	})
	b.free(held, protocol.Proof{Fence: 2, Scrubbed: []string{"n-g0", "n-g1"}})
	step(end, "drained")
	b.must(b.Uncordon(t.Context(), ada.Change, "n", false))
	step(off, "active")
	var facts string
	if err := b.db.QueryRow(t.Context(), `SELECT string_agg(subject, ' ' ORDER BY seq) FROM outbox_events WHERE subject LIKE 'fleet.node_drain%'`).Scan(&facts); err != nil ||
		facts != "fleet.node_draining fleet.node_drained fleet.node_drain_cancelled" {
		t.Errorf("notified %s: %v", facts, err)
	}
}
