package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// A webhook endpoint is down for two days, and then for five: it is disabled. After it was enabled and replayed, nothing is
// missing. The time passes by rows that move back.
func TestAT101NothingIsMissingAfterAnOutageOfAWebhook(t *testing.T) {
	t.Parallel()
	a := startAlarmed(t)
	tenant, user := ids.New[ids.Tenant](), ids.New[ids.User]()
	a.exec(`INSERT INTO tenants (id, name) VALUES ('` + tenant.String() + `', 't');
		INSERT INTO users (id, oidc_subject, email, name, role) VALUES ('` + user.String() + `', 's', 'e', 'n', 'user');
		INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ('` + tenant.String() + `', '` + user.String() + `', 'owner')`)
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := a.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
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
	var down atomic.Bool
	var mu sync.Mutex
	received := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		received[r.Header.Get("webhook-id")]++
	}))
	t.Cleanup(receiver.Close)
	work := a.services[RoleWork]
	consumers := len(work.Notifications.Consumers()) + len(work.WebhookEndpoints.Consumers())
	until("the consumers have started", func() bool { return count(`SELECT count(*) FROM event_consumers`) == consumers })

	api, scope := a.services[RoleAPI].WebhookEndpoints, webhook.Scope{Tenant: tenant}
	caller := identity.Caller{User: user, Tenant: tenant, TenantRole: "owner"}
	as := pg.WithScope(t.Context(), pg.Scope{Tenant: tenant.String(), Principal: user.String()})
	e, err := api.Create(as, identity.Change[webhook.Endpoint]{Caller: caller}, scope, webhook.NewEndpoint{
		Name: "w", URL: receiver.URL, Patterns: []string{"billing.*"}, Format: webhook.Standard, Signature: webhook.Symmetric,
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	emit := func() {
		t.Helper()
		id := ids.New[ids.Event]()
		sent = append(sent, id.String())
		a.do(func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			event.Queue(b, event.Draft{
				ID: id, Stream: event.StreamBilling, Subject: "billing.low_balance_warning", Aggregate: "balance:" + tenant.String(), Sequence: int64(len(sent)), Tenant: tenant, URN: "v:s:-:t:-:tenant:t",
				Payload: map[string]any{"balance_minor": 900, "threshold_minor": 1000, "burn_per_hour_minor": 289, "currency": "EUR"},
			})
			return tx.SendBatch(t.Context(), b).Close()
		})
		a.hints.Send(event.Topic)
		until("a delivery of each event", func() bool {
			return count(`SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1`, e.ID) == len(sent)
		})
	}
	attempts := func() int {
		return count(`SELECT coalesce(sum(jsonb_array_length(attempt_log)), 0) FROM webhook_deliveries WHERE endpoint_id = $1`, e.ID)
	}
	later := func(days string) {
		before := attempts()
		// Two transactions: the jobs lock an endpoint before its deliveries.
		a.exec(`UPDATE webhook_deliveries SET next_at = next_at - interval '` + days + `' WHERE status = 'pending'`)
		a.exec(`UPDATE webhook_endpoints SET failing_since = failing_since - interval '` + days + `', retry_at = now()`)
		until("an attempt after some days", func() bool { return attempts() > before })
	}

	emit()
	until("the first message", func() bool { return count(`SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'`) == 1 })
	down.Store(true)
	emit()
	until("a failure", func() bool {
		return count(`SELECT count(*) FROM webhook_endpoints WHERE failing_since IS NOT NULL`) == 1
	})
	later("2 days")
	emit()
	if n := count(`SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL`); n != 0 {
		t.Error("the endpoint is disabled after two days")
	}
	later("4 days")
	until("the end of the endpoint", func() bool {
		return count(`SELECT count(*) FROM webhook_endpoints WHERE disabled_why = 'failures'`) == 1
	})
	until("a notification", func() bool {
		return count(`SELECT count(*) FROM notifications WHERE kind = 'webhook_disabled' AND user_id = $1`, user) == 1
	})
	emit()
	if n := count(`SELECT count(*) FROM webhook_deliveries WHERE status = 'skipped'`); n != 3 {
		t.Errorf("%d skipped deliveries", n)
	}

	down.Store(false)
	e, err = api.Get(as, scope, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	enabled := false
	if _, err := api.Update(as, identity.Change[webhook.Endpoint]{Caller: caller}, scope, e.ID, e.Version, webhook.Patch{Disabled: &enabled}); err != nil {
		t.Fatal(err)
	}
	if n, err := api.Replay(as, identity.Change[int64]{Caller: caller}, scope, e.ID, webhook.Replay{}); err != nil || n != 3 {
		t.Errorf("%d replayed, %v", n, err)
	}
	until("all messages", func() bool {
		return count(`SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'`) == len(sent)
	})
	until("a notification that it works", func() bool {
		return count(`SELECT count(*) FROM notifications WHERE kind = 'webhook_recovered' AND user_id = $1`, user) == 1
	})
	mu.Lock()
	defer mu.Unlock()
	for _, id := range sent {
		if received[id] != 1 {
			t.Errorf("event %s was received %d times", id, received[id])
		}
	}
	if len(received) != len(sent) {
		t.Errorf("%d events received, %d sent", len(received), len(sent))
	}
}
