package nodehealth_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
)

// hot is a node whose two GPUs are slowed down by heat.
func hot(name string) protocol.Report {
	r := report(name)
	for _, g := range r.Inventory.GPUs {
		r.Health = append(r.Health, protocol.HealthReport{Source: "driver", Target: g.UUID, Check: "thermal", Level: protocol.Degraded})
	}
	return r
}

// fleet has n nodes with two GPUs each, all of them healthy.
func (b *bundle) fleet(n int) []ids.Node {
	b.t.Helper()
	nodes := make([]ids.Node, n)
	for i := range nodes {
		nodes[i] = b.node(fmt.Sprintf("n%03d", i))
	}
	return nodes
}

// atOnce makes nodes report concurrently through two servers.
func (b *bundle) atOnce(nodes []ids.Node, of func(string) protocol.Report) {
	b.t.Helper()
	servers := []*nodehealth.Service{b.Service, nodehealth.New(b.db, nil)}
	var all sync.WaitGroup
	gate := make(chan struct{}, 8) // connections
	for i, id := range nodes {
		all.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			err := pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error {
				return servers[i%2].ApplyReport(b.t.Context(), tx, id, of(fmt.Sprintf("n%03d", i)))
			})
			if err != nil {
				b.t.Error(err)
			}
		})
	}
	all.Wait()
}

func (b *bundle) count(sql string) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

const heldNodes = `SELECT count(DISTINCT node_id) FROM holds WHERE lifted_at IS NULL`

// A tenth of the fleet overheats at the same time. A twentieth gets holds, across servers, and then an
// operator decides.
func TestINV62MassActionStops(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nodes := b.fleet(200)
	b.atOnce(nodes[:20], hot)

	if n := b.count(heldNodes); n != 10 {
		t.Errorf("%d nodes have holds, the bound is 5 %% of 200", n)
	}
	if n := b.count(`SELECT count(*) FROM slots WHERE status = 'clean'`); n != 400-2*10 {
		t.Errorf("%d of 400 slots are for sale", n)
	}
	trip, ever, err := b.Breaker(t.Context())
	if err != nil || !ever || !trip.BreakerOpen() || trip.Allowed != 10 || trip.Held != 10 || trip.Fleet != 200 || trip.RejectedHolds != 10 {
		t.Errorf("%+v, %v, %v", trip, ever, err)
	}
	if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject = 'fleet.mass_action_stopped'`); n != 1 {
		t.Errorf("notified %d times", n)
	}

	// The breaker stays open for later reports, even if all held nodes are healthy again. Otherwise a
	// flapping fault could drain the fleet ten nodes at a time.
	b.atOnce(nodes[:20], report)
	b.atOnce(nodes, hot)
	if n := b.count(heldNodes); n != 0 {
		t.Errorf("%d nodes have holds while the breaker is open", n)
	}

	// An operator has cleared the breaker, so one more window of holds is allowed.
	b.do(func(tx pgx.Tx) error {
		_, err := b.ClearBreaker(t.Context(), tx, "user:1")
		return err
	})
	ill, err := b.NeedRecheck(t.Context(), ids.Node{}, 1000)
	if err != nil || len(ill) != 200 {
		t.Fatalf("%d nodes are checked again, %v", len(ill), err)
	}
	for _, id := range ill {
		b.do(func(tx pgx.Tx) error { return b.Recheck(t.Context(), tx, id) })
	}
	if n := b.count(heldNodes); n != 10 {
		t.Errorf("%d nodes have holds after the breaker was cleared", n)
	}
	if ill, err = b.NeedRecheck(t.Context(), ids.Node{}, 1000); err != nil || len(ill) != 0 {
		t.Errorf("%d nodes are checked for ever, %v", len(ill), err)
	}

	// A higher limit that an operator sets also clears the breaker.
	b.Rules = func(string) nodehealth.FaultRules {
		return nodehealth.FaultRules{Action: nodehealth.FaultQuarantinesSlot, MassPercent: 5, MassMinimum: 12}
	}
	if ill, err = b.NeedRecheck(t.Context(), ids.Node{}, 1000); err != nil || len(ill) != 200 {
		t.Fatalf("%d nodes are checked under the new bound, %v", len(ill), err)
	}
	for _, id := range ill {
		b.do(func(tx pgx.Tx) error { return b.Recheck(t.Context(), tx, id) })
	}
	if n := b.count(heldNodes); n != 12 {
		t.Errorf("%d nodes have holds under a bound of 12", n)
	}
}

// The window is ten minutes: earlier holds do not count.
func TestINV62TheWindowMoves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nodes := b.fleet(4)
	b.atOnce(nodes[:2], hot)
	if _, err := b.db.Exec(t.Context(), `UPDATE holds SET created_at = created_at - interval '11 minutes'`); err != nil {
		t.Fatal(err)
	}
	b.atOnce(nodes, hot)
	if n := b.count(heldNodes); n != 4 {
		t.Errorf("%d of 4 have holds", n)
	}
	if _, ever, err := b.Breaker(t.Context()); ever || err != nil {
		t.Errorf("tripped: %v, %v", ever, err)
	}
}

func TestINV62TheBoundIsPolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules nodehealth.FaultRules
		held  int
		slots int // quarantined
	}{
		"minimum":         {nodehealth.FaultRules{Action: nodehealth.FaultQuarantinesSlot, MassPercent: 1, MassMinimum: 3}, 3, 6},
		"share":           {nodehealth.FaultRules{Action: nodehealth.FaultQuarantinesSlot, MassPercent: 50, MassMinimum: 1}, 5, 10},
		"the whole node":  {nodehealth.FaultRules{Action: nodehealth.FaultCordonsNode, MassPercent: 40, MassMinimum: 1}, 4, 0},
		"only reported":   {nodehealth.FaultRules{Action: nodehealth.FaultIsReported, MassPercent: 100, MassMinimum: 1}, 0, 0},
		"nothing is safe": {nodehealth.FaultRules{Action: nodehealth.FaultQuarantinesSlot, MassPercent: 100, MassMinimum: 1}, 10, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			nodes := b.fleet(10)
			b.Rules = func(string) nodehealth.FaultRules { return c.rules }
			for i, id := range nodes {
				b.report(id, hot(fmt.Sprintf("n%03d", i)))
			}
			if n := b.count(heldNodes); n != c.held {
				t.Errorf("%d nodes have holds, want %d", n, c.held)
			}
			if n := b.count(`SELECT count(*) FROM slots WHERE status = 'quarantined'`); n != c.slots {
				t.Errorf("%d slots are quarantined, want %d", n, c.slots)
			}
		})
	}
}

// The quarantine of a claimed slot waits for its release.
func TestAClaimedSlotIsQuarantinedWhenFreed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	a, err := b.claim(2)
	if err != nil {
		t.Fatal(err)
	}
	b.report(id, hot("n"))
	if got := b.slots(); got != "claimed, claimed" {
		t.Errorf("during the hold: %s", got)
	}
	b.free(a, protocol.Proof{Fence: 1, Scrubbed: []string{"n-g0", "n-g1"}})
	if got := b.slots(); got != "quarantined unhealthy, quarantined unhealthy" {
		t.Errorf("freed: %s", got)
	}
	b.report(id, report("n"))
	if got := b.slots(); got != "clean, clean" {
		t.Errorf("well again: %s", got)
	}
}

func TestOverridesAreReports(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	b.report(id, hot("n"))
	soon := time.Now().Add(time.Hour)
	say := func(o nodehealth.Override) {
		t.Helper()
		b.do(func(tx pgx.Tx) error { return b.Override(t.Context(), tx, id, o) })
	}
	say(nodehealth.Override{Target: "n-g0", Check: "thermal", Level: protocol.Healthy, Message: "the sensor lies", Until: &soon, Actor: "user:1"})
	if got := b.slots(); got != "clean, quarantined unhealthy" {
		t.Errorf("overridden: %s", got)
	}
	b.report(id, hot("n"))
	if got := b.slots(); got != "clean, quarantined unhealthy" {
		t.Errorf("reported again: %s", got)
	}
	if _, err := b.db.Exec(t.Context(), `UPDATE health_reports SET until = now() - interval '1 second' WHERE source = 'operator'`); err != nil {
		t.Fatal(err)
	}
	b.do(func(tx pgx.Tx) error { return b.Recheck(t.Context(), tx, id) })
	if got := b.slots(); got != "quarantined unhealthy, quarantined unhealthy" {
		t.Errorf("ended: %s", got)
	}
	if n := b.count(`SELECT count(*) FROM health_reports WHERE source = 'operator'`); n != 0 {
		t.Errorf("%d expired overrides are stored", n)
	}

	say(nodehealth.Override{Target: "n-g1", Level: protocol.Healthy, Message: "inspected", Actor: "user:1"})
	if got := b.slots(); got != "quarantined unhealthy, clean" {
		t.Errorf("confirmed: %s", got)
	}
	b.do(func(tx pgx.Tx) error { return b.Withdraw(t.Context(), tx, id, "n-g1", "") })
	b.report(id, report("n"))
	say(nodehealth.Override{Target: "n-g1", Check: "noise", Level: protocol.Degraded, Classes: []protocol.Class{protocol.PreventAllocations}, Message: "it whistles", Actor: "user:1"})
	if got := b.slots(); got != "clean, quarantined unhealthy" {
		t.Errorf("an operator's own: %s", got)
	}
	b.do(func(tx pgx.Tx) error { return b.Withdraw(t.Context(), tx, id, "n-g1", "noise") })
	if got := b.slots(); got != "clean, clean" {
		t.Errorf("withdrawn: %s", got)
	}
}

// A source that once spoke and is missing from a whole report is an alert.
func TestASilentSourceIsAnAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	spoke := report("n")
	spoke.Health = []protocol.HealthReport{{Source: "disk", Level: protocol.Healthy}, {Source: "clock", Level: protocol.Healthy}}
	b.report(id, spoke)
	less := report("n")
	less.Health = spoke.Health[:1]
	half := less
	half.Complete, half.Missing = false, []string{"host"}
	b.report(id, half)
	if n := b.count(`SELECT count(*) FROM health_reports WHERE check_id = 'source_silent'`); n != 0 {
		t.Error("half a report proves that a source is silent")
	}
	b.report(id, less)
	n, _, err := b.Node(t.Context(), "n")
	if err != nil || n.Health != "unknown" || n.Message != "clock is missing from the report" {
		t.Errorf("%s (%s), %v", n.Health, n.Message, err)
	}
	b.report(id, less)
	if n := b.count(`SELECT count(*) FROM health_reports WHERE source = 'clock' AND check_id = 'source_silent'`); n != 1 {
		t.Errorf("%d rows report it as stale", n)
	}
	b.report(id, spoke)
	if n, _, err := b.Node(t.Context(), "n"); err != nil || n.Health != "healthy" {
		t.Errorf("it speaks again: %s (%s), %v", n.Health, n.Message, err)
	}
}

// A node's agent writes with its own role, which decides nothing for people.
func TestReportsAreAppliedWithTheNodeAPIRole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	door := nodehealth.New(pgtest.As(t, b.db, "gpuaas_node"), nil)
	r := hot("n")
	r.Topology = topology("n")
	err := pgx.BeginFunc(t.Context(), door.DB, func(tx pgx.Tx) error { return door.ApplyReport(t.Context(), tx, id, r) })
	if err != nil || b.slots() != "quarantined unhealthy, quarantined unhealthy" {
		t.Errorf("%s, %v", b.slots(), err)
	}
	work := nodehealth.New(pgtest.As(t, b.db, "gpuaas_work"), nil)
	if err := pgx.BeginFunc(t.Context(), work.DB, func(tx pgx.Tx) error { return work.Recheck(t.Context(), tx, id) }); err != nil {
		t.Error(err)
	}
}

// An operator clears an open breaker once, with a row in the audit of the platform. One that is closed is no success.
func TestAnOperatorClearsTheBreaker(t *testing.T) {
	t.Parallel()
	s := nodehealth.New(pgtest.Clone(t), &hint.Bus{})
	s.Identity = &identity.Service{DB: s.DB}
	change := identity.Change[nodehealth.Trip]{Caller: identity.Caller{User: ids.New[ids.User](), Tenant: ids.New[ids.Tenant]()}}
	if _, err := s.ClearOpenBreaker(t.Context(), change, "x"); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a closed breaker: %v", err)
	}
	if _, err := s.DB.Exec(t.Context(), `INSERT INTO breaker_trips (held, allowed, fleet, reason, rejected_nodes) VALUES (2, 2, 9, 'r', '{}')`); err != nil {
		t.Fatal(err)
	}
	trip, err := s.ClearOpenBreaker(t.Context(), change, "the cooling works")
	if err != nil || trip.BreakerOpen() || trip.ClearedBy != change.Caller.Actor() {
		t.Errorf("%+v, %v", trip, err)
	}
	var rows int
	if err := s.DB.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'breaker.clear' AND org_id IS NULL`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows in the audit of the platform, %v", rows, err)
	}
}
