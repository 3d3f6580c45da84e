package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/protocol"
)

// sample returns the utilisation of a GPU so long before now; nil: no report.
type sample func(before time.Duration, gpu int) *int

func always(percent int) sample { return func(time.Duration, int) *int { return &percent } }

// except replaces the readings of a period before now.
func (s sample) except(from, to time.Duration, gpu int, by *int) sample {
	return func(before time.Duration, g int) *int {
		if g == gpu && before <= from && before > to {
			return by
		}
		return s(before, g)
	}
}

// reads stores the readings of the last 50 minutes of a node, as its reports of each 10 seconds would.
func (b *bundle) reads(node ids.Node, gpus []string, of sample) {
	b.t.Helper()
	now := time.Now()
	at := now
	live := &observed.Telemetry{DB: b.DB, Clock: clock.At(func() time.Time { return at })}
	for before := 50 * time.Minute; before >= 0; before -= 10 * time.Second {
		at = now.Add(-before)
		r := protocol.Report{Allocations: []protocol.AllocationReport{{Phase: protocol.Ready}}}
		for gpu, uuid := range gpus {
			if v := of(before, gpu); v != nil {
				r.Inventory.GPUs = append(r.Inventory.GPUs, protocol.GPU{UUID: uuid, Utilisation: *v})
			}
		}
		must(b.t, live.Record(b.t.Context(), node, r))
	}
}

// The release of an idle allocation is announced once, withdrawn when a GPU is used, and made at the announced time. A
// reading that is missing, implausible or of another node never makes it idle.
func TestIdleAllocationIsReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rule := manage.IdleRule{After: 30 * time.Minute, Warning: 15 * time.Minute, Utilisation: 5, AtOnce: 1}
	b.deps.Managed.Service = b.Allocations
	b.deps.Managed.IdleRules = func() (func(ids.Tenant, ids.Project) manage.IdleRule, bool) {
		return func(ids.Tenant, ids.Project) manage.IdleRule { return rule }, rule.After > 0
	}
	other, a := b.Node(t, "node-2", 0), b.Active(t, 2)
	b.exec(`UPDATE allocations SET active_at = now() - interval '2 hours'`)
	gpus, err := b.deps.Slots.GPUsOf(t.Context(), b.DB, a.ID)
	must(t, err)
	busy, unread, impossible := 60, protocol.UnreadUtilisation, 200
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	idle := always(5)
	due := func() {
		b.exec(`UPDATE allocations SET idle_release_at = now() - interval '4 minutes' WHERE idle_release_at IS NOT NULL`)
	}
	for _, c := range []struct {
		name   string
		of     sample
		node   ids.Node
		before func()
		events string // of all cases until here
		state  allocation.State
	}{
		{name: "without readings"},
		{name: "a GPU was used", of: idle.except(minutes(20), minutes(19), 1, &busy)},
		{name: "a gap", of: idle.except(minutes(25), minutes(24), 0, nil)},
		{name: "no reading of one GPU", of: idle.except(minutes(50), 0, 1, nil)},
		{name: "not read", of: idle.except(minutes(25), minutes(24), 0, &unread)},
		{name: "an impossible value", of: idle.except(minutes(25), minutes(24), 0, &impossible)},
		{name: "readings of another node", of: idle, node: other},
		{name: "not active for long", of: idle, before: func() { b.exec(`UPDATE allocations SET active_at = now() - interval '20 minutes'`) }},
		{name: "idle", of: idle, before: func() { b.exec(`UPDATE allocations SET active_at = now() - interval '2 hours'`) }, events: "release_scheduled"},
		{name: "announced already", of: idle, events: "release_scheduled"},
		{name: "used again", of: idle.except(minutes(3), minutes(2), 0, &busy), events: "release_scheduled release_cancelled"},
		{name: "idle again", of: idle, events: "release_scheduled release_cancelled release_scheduled"},
		{name: "too many at once", of: idle, before: func() { due(); rule.AtOnce = 0 }, events: "release_scheduled release_cancelled release_scheduled"},
		{name: "used before its end", of: idle.except(minutes(6), minutes(5), 0, &busy), before: due, events: "release_scheduled release_cancelled release_scheduled release_cancelled"},
		{name: "idle once more", of: idle, events: "release_scheduled release_cancelled release_scheduled release_cancelled release_scheduled"},
		{
			name: "at its end", of: idle, before: func() { due(); rule.AtOnce = 1 }, state: allocation.Releasing,
			events: "release_scheduled release_cancelled release_scheduled release_cancelled release_scheduled releasing.requested",
		},
	} {
		b.exec(`DELETE FROM gpu_readings`)
		if c.of != nil {
			node := c.node
			if node == (ids.Node{}) {
				node = b.node
			}
			b.reads(node, gpus, c.of)
		}
		if c.before != nil {
			c.before()
		}
		b.done(jobs.StopIdle{})
		if got := b.releaseEvents(); got != c.events {
			t.Errorf("%s: events are %q, want %q", c.name, got, c.events)
		}
		if c.state == "" {
			c.state = allocation.Active
		}
		if got := b.state(a); got != c.state {
			t.Errorf("%s: the allocation is %s", c.name, got)
		}
	}
	if n := b.count(`SELECT count(*) FROM allocations WHERE reason = 'idle' AND message = 'its GPUs were idle for 30m0s'`); n != 1 {
		t.Errorf("%d allocations with the reason", n)
	}
	if b.Declared(t, a.ID).DeletedAt == nil {
		t.Error("its object is no tombstone")
	}
}

// Without a rule, an announcement is withdrawn, and the tenant sees it until then.
func TestIdleRulesThatEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deps.Managed.Service = b.Allocations
	at := time.Now().Add(time.Minute)
	a := b.Move(t, b.Active(t, 2).ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return b.Allocations.ScheduleIdle(t.Context(), tx, a, &at, "idle")
	})
	reason := ""
	for _, c := range condition.Of(a, condition.Observed{}) {
		if c.Type == "ReleaseScheduled" {
			reason = c.Reason
		}
	}
	if reason != "Idle" {
		t.Errorf("the condition is %q", reason)
	}
	b.done(jobs.WarnExpiring{}) // a job of its own, which a slow scan of readings does not delay
	if got := b.releaseEvents(); got != "release_scheduled" || jobs.Due(b.deps, jobs.StopIdle{}.Kind()) == nil {
		t.Error(got)
	}
	for range 2 {
		b.done(jobs.StopIdle{})
	}
	if got := b.releaseEvents(); got != "release_scheduled release_cancelled" {
		t.Error(got)
	}
	// The rule of the policy reads the stored readings, of which there are none.
	b.setPolicy("allocation.idle_stop_minutes", "60")
	b.exec(`UPDATE allocations SET active_at = now() - interval '2 hours'`)
	b.done(jobs.StopIdle{})
	if got := b.releaseEvents(); got != "release_scheduled release_cancelled" {
		t.Error(got)
	}
}

// releaseEvents returns the events about releases in order, and checks each against the contract.
func (b *bundle) releaseEvents() string {
	b.t.Helper()
	contract, err := asyncapi.Load()
	must(b.t, err)
	rows, err := b.DB.Query(b.t.Context(), `SELECT subject, payload FROM outbox_events WHERE subject LIKE 'provisioning.releas%' ORDER BY seq`)
	must(b.t, err)
	var list []string
	var subject string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload}, func() error {
		list = append(list, strings.TrimPrefix(subject, "provisioning."))
		return contract.Payload(subject, payload)
	})
	must(b.t, err)
	return strings.Join(list, " ")
}
