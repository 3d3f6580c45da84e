package server

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/platform/event"
)

// A stream is deleted three times while writers emit events. The relay fills it again, and each event notifies the user once.
func TestAT102AStreamDeletedUnderLoadRepeatsNothing(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 40
	a := startAlarmed(t)
	tenant, user := ids.New[ids.Tenant](), ids.New[ids.User]()
	a.exec(`INSERT INTO tenants (id, name) VALUES ('` + tenant.String() + `', 't');
		INSERT INTO users (id, oidc_subject, email, name, role) VALUES ('` + user.String() + `', 's', 'e', 'n', 'user');
		INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ('` + tenant.String() + `', '` + user.String() + `', 'member')`)
	count := func(sql string) (n int) {
		t.Helper()
		if err := a.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(what string, yes func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !yes(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	consumers := len(a.services[RoleWork].Notifications.Consumers()) + len(a.services[RoleWork].WebhookEndpoints.Consumers())
	until("the consumers have started", func() bool { return count(`SELECT count(*) FROM event_consumers`) == consumers })
	emit := func() {
		allocation := ids.New[ids.Allocation]().String()
		b := &pgx.Batch{}
		event.Queue(b, event.Draft{
			Stream: event.StreamProvisioning, Subject: "provisioning.active", Aggregate: "allocation:" + allocation, Sequence: 1, Tenant: tenant, User: user,
			URN:     "v:s:-:t:p:allocation:" + allocation,
			Payload: map[string]any{"allocation_id": allocation, "slots": 1, "active_at": time.Now(), "price_per_hour_minor": 200, "currency": "EUR"},
		})
		if err := a.db.SendBatch(t.Context(), b).Close(); err != nil {
			t.Error(err)
		}
		a.hints.Send(event.Topic)
	}
	js, err := natsd.JetStream(a.nats)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range each {
				emit()
			}
		})
	}
	mine := fmt.Sprintf(`FROM notifications WHERE user_id = '%s'`, user)
	for n := range 3 {
		until("notifications of every part", func() bool { return count(`SELECT count(*) `+mine) > n*writers*each/4 })
		if err := js.DeleteStream(t.Context(), event.StreamProvisioning); err != nil {
			t.Error(err)
		}
	}
	running.Wait()
	emit() // an event after the last loss has the relay find it
	until("a notification of each event", func() bool { return count(`SELECT count(*) `+mine) >= writers*each+1 })
	until("an empty stream of work", func() bool { return count(`SELECT coalesce(sum(pending), 0)::int FROM event_consumers`) == 0 })
	if n, repeated := count(`SELECT count(*) `+mine), count(`SELECT count(*) `+mine+` AND count > 1`); n != writers*each+1 || repeated != 0 {
		t.Errorf("%d notifications of %d events, %d of them with another count", n, writers*each+1, repeated)
	}
}
