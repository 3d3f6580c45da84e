package webhook_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume/consumetest"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// INV-26: an endpoint has one delivery of each event of each subject, while the streams deliver it up to five times, in any
// sequence, and lose all messages in between.
func TestINV26EachEventIsOneDeliveryInEachHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`) // the events are older than the consumers
	var events []event.Draft
	batch, patterns := &pgx.Batch{}, []string{"provisioning.*", "billing.*", "payments.*", "fleet.*"}
	for _, c := range b.work.Consumers() {
		for n, subject := range c.Subjects {
			for sequence := range 2 { // the older one is not dropped
				d := event.Draft{
					ID: ids.New[ids.Event](), Stream: c.Stream, Subject: subject, Aggregate: fmt.Sprint(c.Name, n), Sequence: int64(sequence + 1), Tenant: b.tenant,
					URN: "v:s:-:t:-:tenant:t", Payload: struct{}{},
				}
				event.Queue(batch, d)
				events = append(events, d)
			}
		}
	}
	if err := b.db.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	mine := b.endpoint(b.tenant, webhook.NewEndpoint{URL: "https://hooks.example.com/", Patterns: patterns})
	foreign := b.endpoint(b.other, webhook.NewEndpoint{URL: "https://hooks.example.com/", Patterns: patterns})
	consumetest.Deliver(t, b.work.DB, b.work.Consumers(), events)
	for _, e := range events {
		if n := b.count(`SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1 AND event_id = $2`, mine.ID, e.ID.UUID); n != 1 {
			t.Errorf("%d deliveries of %s", n, e.Subject)
		}
	}
	if n := b.count(`SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1`, foreign.ID); n != 0 {
		t.Errorf("%d deliveries to another tenant", n)
	}
}
