package server

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// An event of the outbox becomes a notification of the owner of its tenant: through the relay, JetStream and the consumer of
// its subject. Each consumer has a state that operators read.
func TestAnEventBecomesANotification(t *testing.T) {
	t.Parallel()
	a := startAlarmed(t)
	tenant, user := ids.New[ids.Tenant](), ids.New[ids.User]()
	a.exec(`INSERT INTO tenants (id, name) VALUES ('` + tenant.String() + `', 't');
		INSERT INTO users (id, oidc_subject, email, name, role) VALUES ('` + user.String() + `', 's', 'e', 'n', 'user');
		INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ('` + tenant.String() + `', '` + user.String() + `', 'owner')`)
	count := func(sql string) (n int) {
		t.Helper()
		if err := a.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually := func(what string, yes func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !yes(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	all := len(a.services[RoleWork].Notifications.Consumers()) + len(a.services[RoleWork].WebhookEndpoints.Consumers())
	eventually("the consumers have started", func() bool { return count(`SELECT count(*) FROM event_consumers`) == all })
	a.do(func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		event.Queue(b, event.Draft{
			Stream: event.StreamBilling, Subject: "billing.low_balance_warning", Aggregate: "balance:" + tenant.String(), Sequence: 1, Tenant: tenant, URN: "v:s:-:t:-:tenant:t",
			Payload: map[string]any{"balance_minor": 900, "threshold_minor": 1000, "burn_per_hour_minor": 289, "currency": "EUR"},
		})
		return tx.SendBatch(t.Context(), b).Close()
	})
	a.hints.Send(event.Topic)
	eventually("a notification", func() bool {
		return count(`SELECT count(*) FROM notifications WHERE user_id = '`+user.String()+`' AND kind = 'low_balance'`) == 1
	})
	eventually("a state of each consumer", func() bool { return count(`SELECT count(*) FROM event_consumers WHERE epoch <> ''`) == all })
}
