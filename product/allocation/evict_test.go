package allocation_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
)

// active returns an allocation that its node has reported ready.
func active(t *testing.T, w *allocationtest.Fixture) allocation.Allocation {
	t.Helper()
	return w.Move(t, w.Request(t, 1).ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.NodeReady(t.Context(), tx, a, metering.Observation{})
	})
}

// evictionEvents returns the eviction events in order, and checks each against the contract.
func evictionEvents(t *testing.T, w *allocationtest.Fixture) string {
	t.Helper()
	contract, err := asyncapi.Load()
	must(t, err)
	rows, err := w.DB.Query(t.Context(), `SELECT subject, payload FROM outbox_events WHERE subject LIKE 'provisioning.%release%' ORDER BY seq`)
	must(t, err)
	var list []string
	var subject string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload}, func() error {
		list = append(list, strings.TrimPrefix(subject, "provisioning."))
		return contract.Payload(subject, payload)
	})
	must(t, err)
	return strings.Join(list, " ")
}

// The tenant of an allocation on a draining node is notified once for each change of the deadline, and
// the allocation is released at the deadline with the reason node_drain: not before, and never without a
// notification.
func TestEvictionIsNotifiedAndThenDone(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 2)
	a, s := active(t, w), w.Allocations
	word := allocation.Eviction{At: time.Now().Add(time.Hour).Truncate(time.Microsecond), By: "user:ada", Why: "board swap"}
	leave := func(l allocation.Eviction) func(pgx.Tx, allocation.Allocation) error {
		return func(tx pgx.Tx, a allocation.Allocation) error { return s.ScheduleEviction(t.Context(), tx, a, l) }
	}
	due := func(l allocation.Eviction) func(pgx.Tx, allocation.Allocation) error {
		return func(tx pgx.Tx, a allocation.Allocation) error { return s.Evict(t.Context(), tx, a, l) }
	}
	w.Move(t, a.ID, leave(word))
	a = w.Move(t, a.ID, leave(word))
	if got := evictionEvents(t, w); got != "release_scheduled" || a.EvictAt == nil || !a.EvictAt.Equal(word.At) {
		t.Errorf("notified %s, leaves at %v", got, a.EvictAt)
	}
	pending := ""
	for _, c := range condition.Of(a, condition.Observed{}) {
		if c.Type == "ReleaseScheduled" {
			pending = c.Reason + ": " + c.Message
		}
	}
	if !strings.HasPrefix(pending, "NodeDrain: ") || !strings.Contains(pending, "board swap") || !strings.Contains(pending, "an operator") {
		t.Errorf("its condition is %q", pending)
	}
	if a = w.Move(t, a.ID, due(word)); a.State != allocation.Active {
		t.Errorf("%s before the deadline", a.State)
	}
	a = w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error { return s.CancelEviction(t.Context(), tx, a) })
	if got := evictionEvents(t, w); got != "release_scheduled release_cancelled" || a.EvictAt != nil {
		t.Errorf("notified %s, leaves at %v", got, a.EvictAt)
	}
	past := allocation.Eviction{At: time.Now().Add(-time.Minute).Truncate(time.Microsecond), By: "user:ada", Why: "fire"}
	if a = w.Move(t, a.ID, due(past)); a.State != allocation.Active {
		t.Errorf("%s without a notification", a.State)
	}
	a = w.Move(t, a.ID, due(past))
	if a.State != allocation.Releasing || a.Reason != allocation.ReasonDrain {
		t.Errorf("%s for %q", a.State, a.Reason)
	}
	if open, closed := intervals(t, w, a.ID); open != 0 || closed != 1 {
		t.Errorf("%d intervals are open, %d closed", open, closed)
	}
	if got := evictionEvents(t, w); got != "release_scheduled release_cancelled release_scheduled force_release_requested" {
		t.Errorf("notified %s", got)
	}
}

func line(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, err := ssh.NewPublicKey(public)
	must(t, err)
	return string(ssh.MarshalAuthorizedKey(key))
}

// A login is signed for an allocation in state active, for its own project's people,
// and leaves an audit row with the serial.
func TestALoginIsSignedForWhatIsActive(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 2)
	s := w.Allocations
	s.LoginLife = func() time.Duration { return time.Minute }
	s.Signs = func(_ context.Context, _ ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
		return allocation.Login{Certificate: "for " + id.String(), Serial: 7, ExpiresAt: time.Now().Add(ttl)}, nil
	}
	ch := identity.Change[allocation.Login]{Caller: w.Caller}
	waiting := w.Request(t, 1)
	if _, err := s.Login(t.Context(), ch, waiting.ID, line(t)); errs.CodeOf(err) != errs.AllocationNotActive {
		t.Errorf("one that is not active: %v", err)
	}
	a := active(t, w)
	for what, key := range map[string]string{"no key": "hello", "two keys": line(t) + line(t), "options": "no-pty " + line(t)} {
		if _, err := s.Login(t.Context(), ch, a.ID, key); errs.CodeOf(err) != errs.SSHKeyInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	stranger := ch
	stranger.Caller.Tenant = ids.New[ids.Tenant]()
	if _, err := s.Login(t.Context(), stranger, a.ID, line(t)); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant's: %v", err)
	}
	got, err := s.Login(t.Context(), ch, a.ID, line(t))
	if err != nil || got.Certificate != "for "+a.ID.String() || got.User != a.Login || got.Host != "node-1" || got.Port != 22 {
		t.Errorf("%+v: %v", got, err)
	}
	if n := queryOne[int](t, w, `SELECT count(*) FROM audit_logs WHERE action = 'allocation.ssh_certificate' AND after->>'serial' = '7'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
}
