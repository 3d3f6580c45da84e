package allocation_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// The end of a TTL is announced once, as early as the policy states. Another end is announced again.
func TestExpiryIsAnnounced(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "n1", 2)
	a := w.Active(t, 1)
	w.Active(t, 1) // without a TTL
	end := func(in time.Duration) {
		t.Helper()
		_, err := w.DB.Exec(t.Context(), `UPDATE allocations SET expires_at = now() + $2::interval WHERE id = $1`, a.ID, in)
		must(t, err)
	}
	for _, c := range []struct {
		name         string
		in, warning  time.Duration
		warned, sent int
	}{
		{"too early", time.Hour, 15 * time.Minute, 0, 0},
		{"a longer warning", time.Hour, 2 * time.Hour, 1, 1},
		{"again", 0, 2 * time.Hour, 0, 1},
		{"a value of the tenant", 50 * time.Minute, 15 * time.Minute, 1, 2},
		{"another end", 30 * time.Minute, 2 * time.Hour, 1, 3},
		{"at its end", -time.Second, 2 * time.Hour, 0, 3},
	} {
		if w.Warnings = nil; c.name == "a value of the tenant" {
			w.Warnings = map[ids.Tenant]time.Duration{w.Caller.Tenant: time.Hour}
		}
		if w.Warning = c.warning; c.in != 0 {
			end(c.in)
		}
		n, err := w.Allocations.WarnExpiring(t.Context())
		must(t, err)
		var sent int
		must(t, w.DB.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE subject = 'provisioning.expiring'`).Scan(&sent))
		if n != c.warned || sent != c.sent {
			t.Errorf("%s: warned %d times, %d events", c.name, n, sent)
		}
	}
	contract, err := asyncapi.Load()
	must(t, err)
	var payload []byte
	must(t, w.DB.QueryRow(t.Context(), `SELECT payload FROM outbox_events WHERE subject = 'provisioning.expiring' LIMIT 1`).Scan(&payload))
	must(t, contract.Payload("provisioning.expiring", payload))
}

// A failed provisioning counts against its node until one succeeds.
func TestFailuresOfANodeAreCounted(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "n1", 8)
	failures := func(want int) {
		t.Helper()
		var n int
		must(t, w.DB.QueryRow(t.Context(), `SELECT provision_failures FROM nodes`).Scan(&n))
		if n != want {
			t.Errorf("%d failures, want %d", n, want)
		}
	}
	for want := 1; want <= 2; want++ {
		w.Move(t, w.Request(t, 1).ID, func(tx pgx.Tx, a allocation.Allocation) error {
			return w.Allocations.Exhaust(t.Context(), tx, a, 3, "disk full")
		})
		failures(want)
	}
	w.Active(t, 1)
	failures(0)
}
