package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/platform/event"
)

var (
	tenantA = ids.From[ids.Tenant](uuid.MustParse("01990000-0000-7000-8000-00000000000a"))
	tenantB = ids.From[ids.Tenant](uuid.MustParse("01990000-0000-7000-8000-00000000000b"))
)

func requested(sequence int64) event.Draft {
	return event.Draft{
		ID: ids.New[ids.Event](), Stream: event.StreamProvisioning, Subject: "provisioning.requested",
		Aggregate: "allocation:1", Sequence: sequence, Tenant: tenantA,
		URN: "core42:aicloud:-:a:p:allocation:1", CorrelationID: "c-1",
		Payload: map[string]any{"n": sequence},
	}
}

// state commits the facts in one transaction.
func state(t testing.TB, db pg.Queryer, facts ...event.Draft) {
	t.Helper()
	b := &pgx.Batch{}
	for _, f := range facts {
		event.Queue(b, f)
	}
	if err := db.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
}

// eventually repeats the check until it succeeds. An open transaction of one test hides the events of
// all databases of the cluster, so readers may have to wait.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for began := time.Now(); !yes(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > race.Slower*20*time.Second {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// after reads until there are at least n facts.
func after(t testing.TB, store *event.Store, tenant ids.Tenant, from event.Position, n int) (events []event.Event) {
	t.Helper()
	eventually(t, "events are visible", func() bool {
		var err error
		if events, err = store.After(t.Context(), tenant, from, 10); err != nil {
			t.Fatal(err)
		}
		return len(events) >= n
	})
	return events
}

func TestPayloadAlwaysSaysWhatAndWhose(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	f := requested(1)
	f.Project = ids.New[ids.Project]()
	state(t, db, f)

	events := after(t, &event.Store{DB: db}, tenantA, event.Position{}, 1)
	text, err := json.Marshal(events[0])
	if err != nil {
		t.Fatal(err)
	}
	var envelope map[string]any
	if err := json.Unmarshal(text, &envelope); err != nil {
		t.Fatal(err)
	}
	payload, ok := envelope["payload"].(map[string]any)
	if !ok || payload["urn"] != f.URN || payload["tenant_id"] != f.Tenant.String() ||
		payload["project_id"] != f.Project.String() || payload["n"] != 1.0 {
		t.Errorf("payload %v", envelope["payload"])
	}
	if len(envelope) != 6 || envelope["event_id"] != f.ID.String() || envelope["event_type"] != f.Subject ||
		envelope["version"] != "1.0" || envelope["correlation_id"] != "c-1" {
		t.Errorf("envelope %s", text)
	}
}

func TestReadersSeeTheirTenantOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	store := &event.Store{DB: db}
	a, b := requested(1), requested(2)
	b.Tenant = tenantB
	b.Stream, b.Subject = event.StreamBilling, "billing.balance_depleted"
	before, err := store.Latest(t.Context(), tenantA)
	if err != nil {
		t.Fatal(err)
	}
	state(t, db, a)
	state(t, db, b)

	for name, c := range map[string]struct {
		tenant ids.Tenant
		want   int
	}{"one": {tenantA, 1}, "other": {tenantB, 1}, "platform": {ids.Tenant{}, 2}, "nobody": {ids.New[ids.Tenant](), 0}} {
		if got := after(t, store, c.tenant, before, c.want); len(got) != c.want {
			t.Errorf("%s: got %d", name, len(got))
		}
	}
	if _, err := store.Find(t.Context(), tenantA, b.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("found the event of another tenant: %v", err)
	}
	at, err := store.Find(t.Context(), tenantA, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if rest := after(t, store, ids.Tenant{}, at, 1); len(rest) != 1 || rest[0].ID != b.ID {
		t.Errorf("after the first: %v", rest)
	}
	latest, err := store.Latest(t.Context(), tenantA)
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := store.After(t.Context(), ids.Tenant{}, latest, 10); err != nil || len(rest) != 0 {
		t.Errorf("after the latest: %v, %v", rest, err)
	}
}

func TestINV29EventsAreAppendOnly(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"UPDATE outbox_events SET subject = 'x'", "DELETE FROM outbox_events", "TRUNCATE outbox_events",
		"UPDATE audit_logs SET actor = 'x'", "DELETE FROM audit_logs", "TRUNCATE audit_logs",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			tx := pgtest.Tx(t)
			state(t, tx, requested(1))
			if _, err := tx.Exec(t.Context(), `INSERT INTO audit_logs (id, actor, action, target_urn) VALUES (gen_random_uuid(), 'a', 'b', 'c')`); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), sql); err == nil {
				t.Error("was done")
			}
		})
	}
}
