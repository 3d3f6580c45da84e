// Package webhook measures the deliveries to webhook endpoints.
package webhook

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/services"
)

const (
	endpoints = 100
	hanging   = 10
	// messages is the number of one run: twenty seconds at the goal of 1,000 in a second.
	messages = 20_000
	// body is as long as the envelope of an event.
	body = `{"event_id":"01990f41-3333-7444-8555-666677778888","event_type":"provisioning.active","occurred_at":"2026-01-05T09:00:04Z","version":"1.0","correlation_id":"c1","payload":{"urn":"core42:aicloud:-:t:p:allocation:a","allocation_id":"01990f41-0000-7000-8000-000000000040","slots":1,"active_at":"2026-01-05T09:00:04Z","price_per_hour_minor":289,"currency":"EUR"}}`
)

// tenant owns all endpoints.
var tenant = uuid.MustParse("01990f3e-0000-7000-8000-000000000001")

// sink is a receiver that counts. Requests to /hang get no response until the run ends.
type sink struct {
	*httptest.Server

	received atomic.Int64
	release  chan struct{}
}

func newSink() *sink {
	s := &sink{release: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hang" {
			select {
			case <-s.release:
			case <-r.Context().Done():
			}
			return
		}
		s.received.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	return s
}

func (s *sink) end() {
	close(s.release)
	s.Close()
}

// bench has a database with endpoints, and the workers of the queue.
type bench struct {
	lab      *lab.Lab
	url      string
	pool     *pgxpool.Pool
	services *services.Services
	sink     *sink
	client   *http.Client // of the peer
	n        int
}

// Deliveries compares deliveries with a bare HTTP client, and deliveries next to endpoints that hang with those without.
func Deliveries(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	b, err := newBench(ctx, l)
	if err != nil {
		return nil, err
	}
	defer b.pool.Close()
	defer b.sink.end()
	p, err := l.Alternate(ctx, lab.LeastPairs, func(ctx context.Context) error { return b.fresh(ctx, 0) }, b.deliver, b.bare)
	if err != nil {
		return nil, err
	}
	peak := lab.Throughput(p, int(b.total()), "O6-peak", fmt.Sprintf("%d webhooks that are due to %d endpoints / a bare HTTP client", b.total(), endpoints-hanging))
	peak.Note = fmt.Sprintf("peer: one client, %d requests at once, without signatures, a database and results", lab.Connections)
	p, err = l.Alternate(ctx, lab.LeastPairs, func(ctx context.Context) error { return b.empty(ctx) }, b.paced, b.barePaced)
	if err != nil {
		return nil, err
	}
	load := lab.Throughput(p, b.pacedTotal(), "O6", fmt.Sprintf("1,000 webhooks in a second to %d endpoints, from the event to the receiver / a bare HTTP client", endpoints-hanging)).AtLeast(0.5)
	load.Note = "peer: one client that sends as many requests at the same times. Ours dispatches each event to all endpoints, and stores each result"
	hang := false
	p, err = l.Alternate(ctx, lab.LeastPairs, func(ctx context.Context) error {
		hang = !hang
		return b.fresh(ctx, map[bool]int{true: hanging}[hang])
	}, b.deliver, b.deliver)
	if err != nil {
		return nil, err
	}
	slow := p.Row("O6-slow", fmt.Sprintf("the same, while %d of %d endpoints hang", hanging, endpoints), b.n).AtMost(1.05)
	slow.Note = "peer: the same deliveries to the others, without endpoints that hang"
	return []lab.Row{load, peak, slow}, nil
}

func newBench(ctx context.Context, l *lab.Lab) (*bench, error) {
	url, err := l.Database(ctx, "o6")
	if err != nil {
		return nil, err
	}
	b := &bench{
		lab: l, url: url, n: l.Scaled(messages, 2*endpoints), sink: newSink(),
		client: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext, MaxIdleConnsPerHost: lab.Connections}},
	}
	if b.pool, err = lab.OpenAs(ctx, url, "work", 16); err != nil {
		return nil, err
	}
	if b.services, err = lab.Services(b.pool, &hint.Bus{}, l.Logger); err != nil {
		return nil, err
	}
	b.services.WebhookEndpoints.Sender, b.services.WebhookEndpoints.Seal = webhook.NewSender(true), seal()
	return b, nil
}

func seal() secret.Fields {
	ring, err := envelope.NewRing(map[string][]byte{"bench": make([]byte, 32)}, "bench")
	if err != nil {
		panic(err) // the key has the right length
	}
	return secret.Fields{Ring: ring}
}

// fresh stores the endpoints, some of which hang, and the deliveries to the others.
func (b *bench) fresh(ctx context.Context, hang int) error {
	b.sink.received.Store(0)
	if err := b.lab.Exec(ctx, b.url, `TRUNCATE river.river_job`, `TRUNCATE webhook_deliveries`, `DELETE FROM webhook_endpoints`); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for i := range endpoints {
		id, path, n := uuid.Must(uuid.NewV7()), "/", b.n/(endpoints-hanging)
		if i < hanging {
			if path, n = "/hang", 10; hang == 0 {
				continue // the others do the same work in both runs
			}
		}
		sealed := seal().Seal(make([]byte, 24), envelope.Place{Table: "webhook_endpoints", Column: "secret_enc", Row: id.String()})
		if _, err := conn.Exec(ctx, `INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by)
			VALUES ($1, $2, $3, $4, '{provisioning.*}', 'standard', 'v1', $5, 'bench')`, id, tenant, fmt.Sprint(i), b.sink.URL+path, sealed); err != nil {
			return fmt.Errorf("storing an endpoint: %w", err)
		}
		if _, err := conn.Exec(ctx, `INSERT INTO webhook_deliveries (id, endpoint_id, org_id, event_id, event_type, body, status, next_at)
			SELECT gen_random_uuid(), $1, $2, gen_random_uuid(), 'provisioning.active', $3, 'pending', now() FROM generate_series(1, $4)`, id, tenant, body, n); err != nil {
			return fmt.Errorf("storing deliveries: %w", err)
		}
	}
	return b.lab.Exec(ctx, b.url, `ANALYZE webhook_deliveries`, `ANALYZE webhook_endpoints`)
}

// total is the number of deliveries to endpoints that do not hang.
func (b *bench) total() int64 { return int64(b.n / (endpoints - hanging) * (endpoints - hanging)) }

// started runs the workers of the queue while it calls do, which returns its duration.
func (b *bench) started(ctx context.Context, do func(*river.Client[pgx.Tx]) (time.Duration, error)) (time.Duration, error) {
	workers := river.NewWorkers()
	jobs.AddWebhookWorkers(workers, &jobs.Deps{Services: b.services, Log: b.lab.Logger})
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{
		Schema: migrations.RiverSchema, Logger: b.lab.Logger, Workers: workers, FetchCooldown: 2 * time.Millisecond,
		Queues: map[string]river.QueueConfig{riverjob.QueueWebhook: {MaxWorkers: webhook.Workers}}, ReindexerSchedule: river.NeverSchedule(),
	})
	if err != nil {
		return 0, fmt.Errorf("making the job client: %w", err)
	}
	b.services.WebhookEndpoints.Jobs = client
	if err := client.Start(ctx); err != nil {
		return 0, fmt.Errorf("starting the workers: %w", err)
	}
	took, err := do(client)
	if stopped := client.StopAndCancel(ctx); stopped != nil && err == nil {
		err = fmt.Errorf("stopping the workers: %w", stopped)
	}
	return took, err
}

// await waits until the sink has received n messages.
func (b *bench) await(ctx context.Context, n int64) error {
	for b.sink.received.Load() < n && ctx.Err() == nil {
		lab.Wait(ctx, time.Millisecond)
	}
	return ctx.Err()
}

// deliver queues a job for each endpoint, and waits until the sink has received all.
func (b *bench) deliver(ctx context.Context) (time.Duration, error) {
	rows, err := b.pool.Query(ctx, `SELECT id FROM webhook_endpoints ORDER BY url DESC`) // those that hang first
	if err != nil {
		return 0, fmt.Errorf("reading the endpoints: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, fmt.Errorf("reading the endpoints: %w", err)
	}
	due := make([]river.InsertManyParams, len(all))
	for i, id := range all {
		due[i].Args = webhook.DeliverWebhook{Endpoint: id}
	}
	return b.started(ctx, func(client *river.Client[pgx.Tx]) (time.Duration, error) {
		began := clock.Clock{}.Now()
		if _, err := client.InsertMany(ctx, due); err != nil {
			return 0, fmt.Errorf("queueing webhooks: %w", err)
		}
		err := b.await(ctx, b.total())
		return clock.Clock{}.Now().Sub(began), err
	})
}

// bare sends as many requests with one client.
func (b *bench) bare(ctx context.Context) (time.Duration, error) { return b.send(ctx, b.total()) }

func (b *bench) send(ctx context.Context, n int64) (time.Duration, error) {
	var left atomic.Int64
	left.Store(n)
	var sending errgroup.Group
	began := clock.Clock{}.Now()
	for range lab.Connections {
		sending.Go(func() error {
			for left.Add(-1) >= 0 {
				if err := b.post(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := sending.Wait()
	return clock.Clock{}.Now().Sub(began), err
}

func (b *bench) post(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.sink.URL, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	response, err := b.client.Do(req)
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}
