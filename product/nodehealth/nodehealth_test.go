package nodehealth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

type bundle struct {
	*nodehealth.Service

	t  *testing.T
	db *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	return &bundle{nodehealth.New(db, nil), t, db}
}

func (b *bundle) do(do func(pgx.Tx) error) {
	b.t.Helper()
	if err := pgx.BeginFunc(b.t.Context(), b.db, do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) declare(id ids.Node, name string, change func(*desired.Node)) {
	b.t.Helper()
	spec := desired.Node{SKU: "h100", Region: "eu1", Onboarding: "manual", GPUs: 2}
	if change != nil {
		change(&spec)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(func(tx pgx.Tx) error { return b.Declare(b.t.Context(), tx, id, name, text) })
}

func (b *bundle) report(id ids.Node, r protocol.Report) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error { return b.ApplyReport(b.t.Context(), tx, id, r) })
}

// node has two GPUs, g0 and g1 behind its name.
func (b *bundle) node(name string) ids.Node {
	b.t.Helper()
	id := ids.New[ids.Node]()
	b.declare(id, name, nil)
	b.report(id, report(name))
	return id
}

func report(name string) protocol.Report {
	return protocol.Report{Complete: true, Inventory: protocol.Inventory{GPUs: []protocol.GPU{
		{Index: 0, UUID: name + "-g0", Model: "H100", MemoryMiB: 81559, Health: protocol.Healthy},
		{Index: 1, UUID: name + "-g1", Model: "H100", MemoryMiB: 81559, Health: protocol.Healthy},
	}}}
}

func sick(r protocol.Report, i int) protocol.Report {
	r.Inventory.GPUs[i].Health, r.Inventory.GPUs[i].Reasons = protocol.Unhealthy, []string{"xid 79"}
	return r
}

// slots is each device's slot of node n, as "status reason".
func (b *bundle) slots() string {
	b.t.Helper()
	_, devices, err := b.Node(b.t.Context(), "n")
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for _, d := range devices {
		list = append(list, strings.TrimSpace(d.SlotStatus+" "+d.SlotReason))
	}
	return strings.Join(list, ", ")
}

// claim places and claims n slots for a new allocation.
func (b *bundle) claim(n int) (ids.Allocation, error) {
	chosen, err := b.Place(b.t.Context(), slots.Wanted{SKU: "h100", GPUs: n}, time.Now())
	if err != nil {
		return ids.Allocation{}, err
	}
	return b.claimSlots(chosen)
}

func (b *bundle) claimSlots(chosen slots.Placement) (ids.Allocation, error) {
	id := ids.New[ids.Allocation]()
	return id, pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		slots.QueueClaim(batch, id, chosen)
		return tx.SendBatch(b.t.Context(), batch).Close()
	})
}

func (b *bundle) free(id ids.Allocation, p protocol.Proof) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error { return b.Free(b.t.Context(), tx, id, p) })
}

// A slot follows the health of its device only: a claimed slot stays with its claim, and a slot that is
// quarantined for another reason stays quarantined.
func TestSlotsFollowReports(t *testing.T) {
	t.Parallel()
	foreign := report("n")
	foreign.Foreign = []string{"n-g0: process 7 (miner) of uid 0"}
	missing := report("n")
	missing.Inventory.GPUs = missing.Inventory.GPUs[:1]
	partly := missing
	partly.Complete, partly.Missing = false, []string{"inventory"}
	degraded := report("n")
	degraded.Inventory.GPUs[0].Health = protocol.Degraded

	for name, c := range map[string]struct {
		reports []protocol.Report
		want    string
		health  string
	}{
		"healthy":                   {[]protocol.Report{report("n")}, "clean, clean", "healthy"},
		"sick":                      {[]protocol.Report{sick(report("n"), 1)}, "clean, quarantined unhealthy", "degraded"},
		"sick and well again":       {[]protocol.Report{sick(report("n"), 1), report("n")}, "clean, clean", "healthy"},
		"degraded is sold":          {[]protocol.Report{degraded}, "clean, clean", "degraded"},
		"missing":                   {[]protocol.Report{missing}, "clean, quarantined unhealthy", "unhealthy"},
		"missing and back":          {[]protocol.Report{missing, report("n")}, "clean, clean", "healthy"},
		"half a report proves none": {[]protocol.Report{partly}, "clean, clean", "unknown"},
		"foreign use":               {[]protocol.Report{foreign}, "quarantined foreign use, clean", "degraded"},
		"no longer used":            {[]protocol.Report{foreign, report("n")}, "clean, clean", "healthy"},
		"used, then sick":           {[]protocol.Report{foreign, sick(report("n"), 0)}, "quarantined unhealthy, clean", "degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.node("n")
			for _, r := range c.reports {
				b.report(id, r)
			}
			n, _, err := b.Node(t.Context(), "n")
			if got := b.slots(); err != nil || got != c.want || n.Health != c.health {
				t.Errorf("%s, node %s (%s), %v; want %s, %s", got, n.Health, n.Message, err, c.want, c.health)
			}
			again := pgtest.Diff(t, b.db)
			b.report(id, c.reports[len(c.reports)-1])
			if left := again(); left != "" {
				t.Errorf("the same report again wrote\n%s", left)
			}
		})
	}
}

func TestNewNodeWithSickDevice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := ids.New[ids.Node]()
	b.declare(id, "n", nil)
	b.report(id, sick(report("n"), 0))
	if got := b.slots(); got != "quarantined unhealthy, clean" {
		t.Error(got)
	}
}

// INV-03: a released slot is clean only as far as the proof reaches.
func TestINV03FreedByProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proof protocol.Proof
		sick  bool
		want  string
	}{
		"both scrubbed":     {protocol.Proof{Fence: 3, Scrubbed: []string{"n-g0", "n-g1"}}, false, "clean, clean"},
		"one scrubbed":      {protocol.Proof{Fence: 3, Scrubbed: []string{"n-g1"}}, false, "quarantined no scrub proof, clean"},
		"none":              {protocol.Proof{Fence: 3}, false, "quarantined no scrub proof, quarantined no scrub proof"},
		"something is left": {protocol.Proof{Fence: 3, Scrubbed: []string{"n-g0", "n-g1"}, Leftovers: []string{"/home/u"}}, false, "quarantined no scrub proof, quarantined no scrub proof"},
		"sick meanwhile":    {protocol.Proof{Fence: 3, Scrubbed: []string{"n-g0", "n-g1"}}, true, "quarantined unhealthy, clean"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.node("n")
			a, err := b.claim(2)
			if err != nil {
				t.Fatal(err)
			}
			if c.sick {
				b.report(id, sick(report("n"), 0))
				if got := b.slots(); got != "claimed, claimed" {
					t.Errorf("removed from its claim: %s", got)
				}
			}
			b.free(a, c.proof)
			if got := b.slots(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			again := pgtest.Diff(t, b.db)
			b.free(a, protocol.Proof{Fence: 9, Scrubbed: []string{"n-g0", "n-g1"}})
			if left := again(); left != "" {
				t.Errorf("a second proof for claims that have ended wrote\n%s", left)
			}
		})
	}
}

// Dirty and quarantined slots are not for sale, nor is any slot of a node that is cordoned, stale,
// retired or has not reported. The claim itself corrects a server with an outdated cache.
func TestNotForSale(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bundle, ids.Node)
	}{
		"cordoned": {func(b *bundle, id ids.Node) { b.declare(id, "n", func(n *desired.Node) { n.Cordoned = true }) }},
		"silent": {func(b *bundle, id ids.Node) {
			b.do(func(tx pgx.Tx) error { return b.Silent(b.t.Context(), tx, id, true) })
		}},
		"retired":     {func(b *bundle, id ids.Node) { b.do(func(tx pgx.Tx) error { return b.Retire(b.t.Context(), tx, id) }) }},
		"another SKU": {func(b *bundle, id ids.Node) { b.declare(id, "n", func(n *desired.Node) { n.SKU = "a100" }) }},
		"cannot provision": {func(b *bundle, id ids.Node) {
			r := report("n")
			r.Unsupported = []protocol.Type{protocol.ProvisionUser}
			b.report(id, r)
		}},
		"sick": {func(b *bundle, id ids.Node) { b.report(id, sick(sick(report("n"), 0), 1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.node("n")
			believed, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", Region: "eu1", GPUs: 1}, time.Now())
			if err != nil || believed.Node != id || believed.Region != "eu1" {
				t.Fatalf("%+v, %v", believed, err)
			}
			c.change(b, id)
			if name != "another SKU" { // the SKU of a bought node stays
				if _, err := b.claimSlots(believed); errs.CodeOf(err) != errs.SKUUnavailable {
					t.Errorf("a claim from an old cache: %v", err)
				}
			}
			b.Refresh(slots.Wanted{SKU: "h100", Region: "eu1"})
			if s, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", Region: "eu1", GPUs: 1}, time.Now()); errs.CodeOf(err) != errs.SKUUnavailable {
				t.Errorf("placed on %+v: %v", s, err)
			}
		})
	}
}

// A server does not offer again what it has placed, although it reads the table only once a second. It
// finds freed slots when its cache is empty.
func TestPlaceRemembersItsSales(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.node("n")
	b.node("m")
	now := time.Now()
	var sold []string
	for range 4 {
		s, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 1}, now)
		if err != nil {
			t.Fatal(err)
		}
		sold = append(sold, s.GPUs...)
		if _, err := b.claimSlots(s); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(sold); !slices.Equal(sold, []string{"m-g0", "m-g1", "n-g0", "n-g1"}) {
		t.Errorf("sold %v", sold)
	}
	if _, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 1}, now); errs.CodeOf(err) != errs.SKUUnavailable {
		t.Error(err)
	}
	b.node("o")
	if s, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 2}, now); err != nil || !slices.Equal(s.GPUs, []string{"o-g0", "o-g1"}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSilenceAndReturn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	for _, c := range []struct {
		silent bool
		want   string
	}{{false, "active reachable"}, {true, "offline stale"}, {true, "offline stale"}, {false, "active reachable"}} {
		b.do(func(tx pgx.Tx) error { return b.Silent(t.Context(), tx, id, c.silent) })
		if n, _, err := b.Node(t.Context(), "n"); err != nil || n.Lifecycle+" "+n.Reachability != c.want {
			t.Errorf("silent %v: %s %s, %v", c.silent, n.Lifecycle, n.Reachability, err)
		}
	}
}

// A node without claims leaves the fleet at once, and returns when its desired object is put again.
func TestRetire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	b.retire(id)
	if list, err := b.Nodes(t.Context(), fleet.Filter{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("a retired node is listed: %v %v", list, err)
	}
	b.declare(id, "n", nil)
	b.report(id, report("n"))
	if n, _, err := b.Node(t.Context(), "n"); err != nil || n.Lifecycle != "active" || b.slots() != "clean, clean" {
		t.Errorf("declared again: %s, %s, %v", n.Lifecycle, b.slots(), err)
	}
	b.retire(ids.New[ids.Node]()) // declared and undeclared before anybody carried it out
}

func (b *bundle) retire(id ids.Node) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error { return b.Retire(b.t.Context(), tx, id) })
}

func (b *bundle) lifecycle() string {
	b.t.Helper()
	n, _, err := b.Node(b.t.Context(), "n")
	if err != nil {
		b.t.Fatal(err)
	}
	return n.Lifecycle
}

// INV-13: a node that is removed while it has claims drains. It receives no new claims, releases none by
// force, stays in the list meanwhile, and retires with the last proof, however the claims end.
func TestINV13RemovedWithClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(*bundle, ids.Allocation)
		slots string
	}{
		"proved clean": {func(b *bundle, a ids.Allocation) { b.free(a, protocol.Proof{Scrubbed: []string{"n-g0"}}) }, "quarantined retired, quarantined retired"},
		"not proved":   {func(b *bundle, a ids.Allocation) { b.free(a, protocol.Proof{}) }, "quarantined no scrub proof, quarantined retired"},
		"quarantined for an inspection": {func(b *bundle, a ids.Allocation) {
			b.do(func(tx pgx.Tx) error { return b.Quarantine(b.t.Context(), tx, a, "release failed") })
		}, "quarantined release failed, quarantined retired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.node("n")
			a, err := b.claim(1)
			if err != nil {
				t.Fatal(err)
			}
			b.retire(id)
			if b.lifecycle() != "draining" || b.slots() != "claimed, quarantined retired" {
				t.Errorf("removed: %s, %s", b.lifecycle(), b.slots())
			}
			if _, err := b.claim(1); errs.CodeOf(err) != errs.SKUUnavailable {
				t.Errorf("claimed on a draining node: %v", err)
			}
			diff := pgtest.Diff(t, b.db)
			b.retire(id)
			if left := diff(); left != "" {
				t.Errorf("repeated, and wrote\n%s", left)
			}
			b.report(id, report("n"))
			if list, err := b.Nodes(t.Context(), fleet.Filter{Limit: 10}); err != nil || len(list) != 1 || b.lifecycle() != "draining" {
				t.Errorf("a report ends a drain: %v, %v", list, err)
			}
			c.end(b, a)
			if b.lifecycle() != "retired" || b.slots() != c.slots {
				t.Errorf("in the end: %s, %s", b.lifecycle(), b.slots())
			}
		})
	}
}

// Who is declared again while it drains sells again at once.
func TestDeclaredAgainWhileDraining(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	if _, err := b.claim(1); err != nil {
		t.Fatal(err)
	}
	b.retire(id)
	b.declare(id, "n", nil)
	if b.lifecycle() != "active" || b.slots() != "claimed, clean" {
		t.Errorf("%s, %s", b.lifecycle(), b.slots())
	}
	b.retire(id)
	b.do(func(tx pgx.Tx) error { return b.Silent(t.Context(), tx, id, true) })
	b.declare(id, "n", nil)
	if b.lifecycle() != "offline" {
		t.Errorf("silent, and %s", b.lifecycle())
	}
}

// The last two claims end at the same time as the removal of the node: the node retires.
func TestRetireDuringReleases(t *testing.T) {
	t.Parallel()
	for range 10 {
		b := setup(t)
		id := b.node("n")
		one, err := b.claim(1)
		if err != nil {
			t.Fatal(err)
		}
		two, err := b.claim(1)
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { b.free(one, protocol.Proof{Scrubbed: []string{"n-g0", "n-g1"}}) })
		both.Go(func() { b.free(two, protocol.Proof{Scrubbed: []string{"n-g0", "n-g1"}}) })
		both.Go(func() { b.retire(id) })
		both.Wait()
		if b.lifecycle() != "retired" || b.slots() != "quarantined retired, quarantined retired" {
			t.Fatalf("%s, %s", b.lifecycle(), b.slots())
		}
	}
}

// A claim that is concurrent with the removal of its node either succeeds, and the node drains, or
// fails, and the node retires.
func TestRetireDuringClaims(t *testing.T) {
	t.Parallel()
	for range 10 {
		b := setup(t)
		id := b.node("n")
		chosen, err := b.Place(t.Context(), slots.Wanted{SKU: "h100", GPUs: 1}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var claimed error
		var both sync.WaitGroup
		both.Go(func() { _, claimed = b.claimSlots(chosen) })
		both.Go(func() { b.retire(id) })
		both.Wait()
		if want := map[bool]string{true: "draining", false: "retired"}[claimed == nil]; b.lifecycle() != want {
			t.Fatalf("claimed: %v, and the node is %s", claimed, b.lifecycle())
		}
	}
}

// INV-39: of fifty who show one token, one is let in; and not for ever.
func TestINV39TokenOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := ids.New[ids.Node]()
	b.declare(id, "n", nil)
	issue := func() (token string) {
		b.do(func(tx pgx.Tx) (err error) {
			token, _, err = b.EnrolmentToken(t.Context(), tx, id)
			return err
		})
		return token
	}
	use := func(token string) error {
		r, err := b.ReserveToken(t.Context(), token)
		if err == nil && r.Node != id {
			err = fmt.Errorf("it is the token of %s", r.Node)
		}
		if err != nil {
			return err
		}
		return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error { return b.SpendToken(t.Context(), tx, r, nil) })
	}
	token := issue()
	var mu sync.Mutex
	var all sync.WaitGroup
	won := 0
	for range 50 {
		all.Go(func() {
			err := use(token)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if errs.CodeOf(err) != errs.EnrolmentTokenInvalid {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won != 1 {
		t.Errorf("%d were let in", won)
	}
	if n, _, err := b.Node(t.Context(), "n"); err != nil || n.Lifecycle != "enrolled" {
		t.Errorf("%s, %v", n.Lifecycle, err)
	}

	late := issue()
	if _, err := b.db.Exec(t.Context(), `UPDATE enrolment_tokens SET expires_at = now() - interval '1 second' WHERE used_at IS NULL`); err != nil {
		t.Fatal(err)
	}
	retired := issue()
	b.do(func(tx pgx.Tx) error { return b.Retire(t.Context(), tx, id) })
	for name, token := range map[string]string{"late": late, "unknown": "gpe_x", "of a retired node": retired} {
		if err := use(token); errs.CodeOf(err) != errs.EnrolmentTokenInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, _, err := b.EnrolmentToken(t.Context(), tx, id)
		return err
	})
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a token for a retired node: %v", err)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		t.Error("the cause reaches the client")
	}
}

// INV-01's backstop: one holder at any instant, whatever a statement tries.
func TestOneHolderByConstraint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.node("n")
	if _, err := b.claim(1); err != nil {
		t.Fatal(err)
	}
	_, err := b.db.Exec(t.Context(), `INSERT INTO slot_claims SELECT slot_id, gen_random_uuid(), tstzrange(now(), NULL) FROM slot_claims`)
	if err == nil || !strings.Contains(err.Error(), "slot_claims_one_holder") {
		t.Error(err)
	}
}

// Capacity counts slots, without the names of nodes.
func TestCapacity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.node("n")
	quiet := b.node("m")
	b.do(func(tx pgx.Tx) error { return b.Silent(t.Context(), tx, quiet, true) })
	a, err := b.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	want := slots.Capacity{SKU: "h100", Region: "eu1", Nodes: 2, Total: 4, Free: 1, Claimed: 1}
	if list, err := b.Capacity(t.Context()); err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("%+v, %v", list, err)
	}
	b.do(func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		slots.QueueDirty(batch, a)
		return tx.SendBatch(t.Context(), batch).Close()
	})
	want.Claimed, want.Dirty = 0, 1
	if list, err := b.Capacity(t.Context()); err != nil || list[0] != want {
		t.Errorf("%+v, %v", list, err)
	}
	n, devices, err := b.Node(t.Context(), "n")
	if err != nil || n.Occupancy() != "partial" || devices[0].Holder == nil || *devices[0].Holder != a.UUID {
		t.Errorf("%s %+v %v", n.Occupancy(), devices, err)
	}
}
