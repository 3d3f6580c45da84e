package webhook_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/policies"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"webhook_endpoints", "webhook_deliveries"}, webhook.Statements)
}

// bundle has the service with the rights of the API and of a worker, and two tenants.
type bundle struct {
	t         *testing.T
	db        *pgxpool.Pool
	api, work *webhook.Service
	tenant    ids.Tenant
	other     ids.Tenant
	project   ids.Project
	owner     ids.User
	limit     int64
}

func noEmail(ids.Tenant, ids.Project, ids.User) policies.View {
	return policies.Snapshot{}.For().With(string(policies.NotificationEmailEnabled), policies.Platform, false)
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, db: pgtest.Clone(t), tenant: ids.New[ids.Tenant](), other: ids.New[ids.Tenant](), project: ids.New[ids.Project](), owner: ids.New[ids.User](), limit: 1_000}
	seal := identitytest.Seal(t)
	serviceOf := func(role string) *webhook.Service {
		var db pg.Pool = pgtest.As(t, b.db, role)
		queue, err := river.NewClient(riverpgxv5.New(pgtest.As(t, b.db, role)), &river.Config{Schema: migrations.RiverSchema})
		if err != nil {
			t.Fatal(err)
		}
		if role == "gpuaas_api" {
			db = pg.Scoped{Pool: pgtest.As(t, b.db, role)}
		}
		who := &identity.Service{DB: db, Naming: ids.DefaultNaming, Hints: &hint.Bus{}}
		s := webhook.New(webhook.Service{
			DB: db, Identity: who, Notifications: &notification.Service{DB: db, Naming: ids.DefaultNaming, Metrics: notification.NewMetrics(), Policy: noEmail}, Seal: seal, Sender: webhook.NewSender(true),
			MaxEndpoints: func(ids.Tenant) int64 { return b.limit }, Metrics: webhook.NewMetrics(db), Jobs: queue,
		})
		s.Sender.SetTimeout(time.Second)
		return s
	}
	b.api, b.work = serviceOf("gpuaas_api"), serviceOf("gpuaas_work")
	b.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'a'), ($2, 'b')`, b.tenant, b.other)
	b.exec(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'p')`, b.project, b.tenant)
	b.exec(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, 's', 'e', 'n', 'user')`, b.owner)
	b.exec(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'owner')`, b.tenant, b.owner)
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (b *bundle) caller(tenant ids.Tenant) identity.Caller {
	return identity.Caller{User: b.owner, Tenant: tenant, TenantRole: "owner"}
}

// as returns the context of a request of the tenant.
func (b *bundle) as(tenant ids.Tenant) context.Context {
	return pg.WithScope(b.t.Context(), pg.Scope{Tenant: tenant.String(), Principal: b.owner.String()})
}

func change[T any](c identity.Caller) identity.Change[T] { return identity.Change[T]{Caller: c} }

// endpoint creates an endpoint of a tenant.
func (b *bundle) endpoint(tenant ids.Tenant, n webhook.NewEndpoint) webhook.Endpoint {
	b.t.Helper()
	if n.Name == "" {
		n.Name = "w-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20]
	}
	if n.Patterns == nil {
		n.Patterns = []string{"provisioning.*"}
	}
	if n.Format == "" {
		n.Format = webhook.Standard
	}
	if n.Signature == "" {
		n.Signature = webhook.Symmetric
	}
	e, err := b.api.Create(b.as(tenant), change[webhook.Endpoint](b.caller(tenant)), webhook.Scope{Tenant: tenant}, n)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func draft(tenant ids.Tenant, project ids.Project, subject string) event.Event {
	payload, _ := json.Marshal(map[string]any{"urn": "v:s:-:t:p:allocation:1", "allocation_id": "1"})
	return event.Event{ID: ids.New[ids.Event](), Type: subject, OccurredAt: time.Now(), Version: event.Version, CorrelationID: "c", Payload: payload, Tenant: tenant, Project: project}
}

func (b *bundle) dispatch(events ...event.Event) {
	b.t.Helper()
	for _, e := range events {
		if err := pgx.BeginFunc(b.t.Context(), b.work.DB, func(tx pgx.Tx) error { return b.work.Dispatch(b.t.Context(), tx, e) }); err != nil {
			b.t.Fatal(err)
		}
	}
}

// deliver does what the job does.
func (b *bundle) deliver(id ids.Webhook) (now bool) {
	b.t.Helper()
	if err := b.work.Deliver(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
	if err := pgx.BeginFunc(b.t.Context(), b.work.DB, func(tx pgx.Tx) (err error) {
		now, err = b.work.StoreDue(b.t.Context(), tx, id)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return now
}

func (b *bundle) list(e webhook.Endpoint) []webhook.Delivery {
	b.t.Helper()
	all, err := b.api.Deliveries(b.as(e.Tenant), webhook.Scope{Tenant: e.Tenant}, e.ID, "", uuid.Nil, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *bundle) get(e webhook.Endpoint) webhook.Endpoint {
	b.t.Helper()
	e, err := b.api.Get(b.as(e.Tenant), webhook.Scope{Tenant: e.Tenant}, e.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// later moves the pending deliveries of an endpoint, and its failures, back in time.
func (b *bundle) later(e webhook.Endpoint, by time.Duration) {
	b.exec(`UPDATE webhook_deliveries SET next_at = next_at - $2::interval WHERE endpoint_id = $1 AND status = 'pending'`, e.ID, by)
	b.exec(`UPDATE webhook_endpoints SET failing_since = failing_since - $2::interval, blocked_until = blocked_until - $2::interval, retry_at = retry_at - $2::interval WHERE id = $1`, e.ID, by)
}

// received is a request that a receiver has got.
type received struct {
	header http.Header
	body   string
}

// receiver is an HTTP server that answers as the test wants.
type receiver struct {
	*httptest.Server

	mu      sync.Mutex
	got     []received
	respond func(http.ResponseWriter, *http.Request)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, received{req.Header.Clone(), string(body)})
		respond := r.respond
		r.mu.Unlock()
		if respond != nil {
			respond(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(with func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = with
}

func (r *receiver) status(code int) {
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// ids returns the ids of the received messages in the sequence of their receipt.
func (r *receiver) ids() (all []string) {
	for _, g := range r.all() {
		all = append(all, g.header.Get("Webhook-Id"))
	}
	return all
}
