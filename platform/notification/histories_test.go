package notification

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume/consumetest"
)

// INV-26: each user of the audience of each kind is notified of each event once, while the stream delivers it up to five
// times, in any sequence, and loses all messages in between.
func TestINV26EachKindNotifiesOnceInEachHistory(t *testing.T) {
	t.Parallel()
	const each = 8
	b := setup(t)
	b.exec(`ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`) // the events are older than the consumers
	var events []event.Draft
	batch := &pgx.Batch{}
	for _, k := range kinds() {
		for n := range each {
			d := event.Draft{
				ID: ids.New[ids.Event](), Stream: k.stream, Subject: k.subject, Aggregate: fmt.Sprint(k.name, ":", n), Sequence: 1,
				Tenant: b.tenants["a"], Project: b.project["a"], User: ids.From[ids.User](b.users["a project member"]), URN: fmt.Sprint("v:s:-:t:p:allocation:", k.name, n),
				Payload: json.RawMessage(payloadOf(t, k, requiredFields(k))),
			}
			if k.stream == event.StreamDLQ {
				d.Subject = "dlq.fleet.fleet.node_retiring"
			} else {
				event.Queue(batch, d)
			}
			events = append(events, d)
		}
	}
	if err := b.db.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	consumetest.Deliver(t, b.DB, b.Consumers(), events)
	for _, k := range kinds() {
		type row struct {
			User  uuid.UUID
			Count int
		}
		got, err := pg.List(t.Context(), b.db, "notifications", `SELECT user_id, sum(count)::int FROM notifications WHERE kind = $1 GROUP BY user_id`, pgx.RowToStructByPos[row], k.name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			t.Errorf("%s notifies no one", k.name)
		}
		for _, r := range got {
			if r.Count != each {
				t.Errorf("%s: a user was notified %d times of %d events", k.name, r.Count, each)
			}
		}
	}
}
