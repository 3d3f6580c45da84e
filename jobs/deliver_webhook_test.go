package jobs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// webhookSeal has the data key of the secrets of webhooks.
func webhookSeal() secret.Fields {
	ring, err := envelope.NewRing(map[string][]byte{"test": make([]byte, 32)}, "test")
	if err != nil {
		panic(err)
	}
	return secret.Fields{Ring: ring}
}

// addWebhook stores an endpoint with pending deliveries.
func addWebhook(ctx context.Context, db pg.Queryer, tenant ids.Tenant, url string, deliveries int) (id uuid.UUID, err error) {
	id = uuid.Must(uuid.NewV7())
	sealed := webhookSeal().Seal(make([]byte, 24), envelope.Place{Table: "webhook_endpoints", Column: "secret_enc", Row: id.String()})
	if _, err := db.Exec(ctx, `INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by)
		VALUES ($1::uuid, $2, ($1::uuid)::text, $3, '{billing.*}', 'standard', 'v1', $4, 'u')`, id, tenant.UUID, url, sealed); err != nil {
		return id, err
	}
	_, err = db.Exec(ctx, `INSERT INTO webhook_deliveries (id, endpoint_id, org_id, event_id, event_type, body, status, next_at)
		SELECT gen_random_uuid(), $1, $2, gen_random_uuid(), 'billing.refunded', '{}', 'pending', now() FROM generate_series(1, $3)`, id, tenant.UUID, deliveries)
	return id, err
}

// sink counts the messages that it receives, by id.
type sink struct {
	*httptest.Server

	mu     sync.Mutex
	status int
	got    map[string]int
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{status: http.StatusNoContent, got: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[r.Header.Get("webhook-id")]++
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

// counts returns the number of messages, and the most receipts of one.
func (s *sink) counts() (messages, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.got {
		most = max(most, n)
	}
	return len(s.got), most
}

// The job of an endpoint sends all that is due, and ends. A job without an endpoint ends, too.
func TestDeliverWebhookSendsWhatIsDue(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newSink(t)
	id, err := addWebhook(t.Context(), b.DB, b.Caller.Tenant, s.URL, 150)
	if err != nil {
		t.Fatal(err)
	}
	b.done(webhook.DeliverWebhook{Endpoint: id})
	if n, most := s.counts(); n != 150 || most != 1 {
		t.Errorf("%d messages, one of them %d times", n, most)
	}
	b.nothing("all was sent", webhook.DeliverWebhook{Endpoint: id})
	b.nothing("there is no endpoint", webhook.DeliverWebhook{Endpoint: uuid.Must(uuid.NewV7())})
}

// A failure is sent again by the job of retries, when it is due.
func TestRetryWebhooksQueuesWhatIsDueAgain(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newSink(t)
	s.status = http.StatusInternalServerError
	id, err := addWebhook(t.Context(), b.DB, b.Caller.Tenant, s.URL, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.done(webhook.DeliverWebhook{Endpoint: id})
	b.done(webhook.RetryWebhooks{})
	if _, most := s.counts(); most != 1 {
		t.Errorf("sent %d times before it was due", most)
	}
	if _, err := b.DB.Exec(t.Context(), `UPDATE webhook_deliveries SET next_at = now(); UPDATE webhook_endpoints SET retry_at = now()`); err != nil {
		t.Fatal(err)
	}
	b.done(webhook.RetryWebhooks{})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, most := s.counts(); most == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not sent again")
		}
	}
}

// A secret that does not open is no failure that River repeats and stores: the job waits, and the receiver gets nothing.
func TestDeliverWebhookWaitsForASecret(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newSink(t)
	id, err := addWebhook(t.Context(), b.DB, b.Caller.Tenant, s.URL, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.DB.Exec(t.Context(), `UPDATE webhook_endpoints SET secret_enc = 'x'`); err != nil {
		t.Fatal(err)
	}
	inserted, err := b.client.Insert(t.Context(), webhook.DeliverWebhook{Endpoint: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		job, err := b.client.JobGet(t.Context(), inserted.Job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == rivertype.JobStateScheduled && len(job.Errors) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the job is %s, %v", job.State, job.Errors)
		}
	}
	if n, _ := s.counts(); n != 0 {
		t.Errorf("%d messages", n)
	}
}
