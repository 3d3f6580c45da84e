//go:build failpoint

package jobs_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/services"
)

// serveWebhooks works until no job of a webhook waits.
func serveWebhooks(ctx context.Context, _ string) error {
	db, err := pg.Open(ctx, os.Getenv("PAYMENT_TEST_DB"), "test", 6)
	if err != nil {
		return err
	}
	defer db.Close()
	who := &identity.Service{DB: db, Naming: ids.DefaultNaming, Hints: &hint.Bus{}}
	s := webhook.New(webhook.Service{
		DB: db, Identity: who, Notifications: &notification.Service{DB: db}, Seal: webhookSeal(), Sender: webhook.NewSender(true),
		MaxEndpoints: func(ids.Tenant) int64 { return 10 }, Metrics: webhook.NewMetrics(db),
	})
	quiet := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, TestOnly: true,
		Workers: jobs.Workers(&jobs.Deps{Services: &services.Services{DB: db, WebhookEndpoints: s, Hints: who.Hints}, Log: quiet}),
		Queues:  map[string]river.QueueConfig{riverjob.QueueWebhook: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	s.Jobs = client
	if _, err := db.Exec(ctx, `UPDATE river.river_job SET state = 'available' WHERE state = 'running'`); err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRow(ctx, `SELECT count(*) FROM river.river_job WHERE kind = 'deliver_webhook' AND finalized_at IS NULL`).Scan(&left); err != nil {
			return err
		}
	}
	return client.Stop(ctx)
}

// A worker that is killed between a request and its result, before the commit that ends its job, or after it. Each message
// arrives, and at most once more, with the same id.
func TestWebhooksKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "webhook.") && !strings.HasPrefix(point, "job.webhook.") {
			continue
		}
		n++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w, s := allocationtest.New(t, 0), newSink(t)
			id, err := addWebhook(t.Context(), w.DB, w.Caller.Tenant, s.URL, 5)
			if err != nil {
				t.Fatal(err)
			}
			client, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Insert(t.Context(), webhook.DeliverWebhook{Endpoint: id}, nil); err != nil {
				t.Fatal(err)
			}
			child, killed := killtest.New(t, point, "PAYMENT_TEST_STEP=webhook", "PAYMENT_TEST_DB="+w.DB.Config().ConnString()), 0
			for {
				if _, dead := child.Run(t.Context(), t); !dead {
					break
				}
				killed++
			}
			want := map[string]int{"webhook.after_send": 2}[point]
			if messages, most := s.counts(); killed != 1 || messages != 5 || most != max(want, 1) {
				t.Errorf("killed %d times: %d messages, one of them %d times", killed, messages, most)
			}
			var pending int
			if err := w.DB.QueryRow(t.Context(), `SELECT count(*) FROM webhook_deliveries WHERE status <> 'delivered' OR attempts <> 1`).Scan(&pending); err != nil || pending != 0 {
				t.Errorf("%d deliveries are not delivered, %v", pending, err)
			}
		})
	}
	if n != 3 {
		t.Errorf("%d points", n)
	}
}
