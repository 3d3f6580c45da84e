package autotopup_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
)

var terms = autotopup.Terms{Threshold: 2000, Amount: 5000, Cap: 12_000, Currency: "EUR"}

// bundle is a tenant with an empty balance at the double of the provider. Events wait until deliver.
type bundle struct {
	t         *testing.T
	db        *pgxpool.Pool
	api, work *autotopup.Service
	provider  *stripetest.Provider
	caller    identity.Caller
	mine      context.Context
	allowed   atomic.Bool
	ahead     atomic.Int64 // of the clock
	// beforeResponse runs after the provider has made a charge and before the client receives its response.
	beforeResponse atomic.Pointer[func()]
	fault          atomic.Pointer[string] // of the next charge; the search before it is not affected
	events         chan delivery
}

type delivery struct {
	body      []byte
	signature string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, db: pgtest.Clone(t), provider: stripetest.Start(t, devstripe.Config{}), events: make(chan delivery, 1000)}
	b.allowed.Store(true)
	must(t, pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		seed, err := devseed.Write(t.Context(), tx, nil)
		if err != nil {
			return err
		}
		b.caller = identity.Caller{User: seed.Dev.ID, Tenant: seed.Tenant, TenantName: "dev", CorrelationID: "corr-1"}
		_, err = (&ledger.Service{DB: b.db}).EnsureAccounts(t.Context(), tx, seed.Tenant, "EUR")
		return err
	}))
	b.mine = pg.WithScope(t.Context(), b.caller.Scope(false))
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.events <- delivery{body, r.Header.Get("Stripe-Signature")}
	}))
	t.Cleanup(hook.Close)
	b.provider.SetWebhook(hook.URL)
	scoped, worker := pgtest.Scoped(t, b.db), pgtest.As(t, b.db, "gpuaas_work")
	b.api, b.work = b.service(scoped, scoped.Pool), b.service(worker, worker)
	return b
}

func (b *bundle) service(db pg.Pool, pool *pgxpool.Pool) *autotopup.Service {
	b.t.Helper()
	to, err := url.Parse(b.provider.URL)
	must(b.t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if fault := b.fault.Load(); isCharge(r.In) && fault != nil && b.fault.CompareAndSwap(fault, nil) {
				must(b.t, b.provider.Arm(*fault, 1))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if do := b.beforeResponse.Load(); do != nil && isCharge(r.Request) {
				(*do)()
			}
			return nil
		},
	})
	b.t.Cleanup(proxy.Close)
	client, err := stripe.New(stripe.Config{Key: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, URL: proxy.URL})
	must(b.t, err)
	queue, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: migrations.RiverSchema})
	must(b.t, err)
	return autotopup.New(&payment.Service{
		DB: db, Provider: client, Identity: &identity.Service{DB: db}, Ledger: &ledger.Service{DB: db}, Jobs: queue, Naming: ids.DefaultNaming, Hints: &hint.Bus{},
		Limits: func(identity.Caller) payment.Limits {
			return payment.Limits{Min: 500, Max: 500_000, SessionTTL: time.Hour, AutoTopup: b.allowed.Load()}
		},
		PublicURL: func() string { return "https://gpuaas.example" }, Metrics: payment.NewMetrics(),
		Clock: clock.At(func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }),
	})
}

func isCharge(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/payment_intents"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code errs.Code) {
	t.Helper()
	if errs.CodeOf(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func change[T any](c identity.Caller) identity.Change[T] { return identity.Change[T]{Caller: c} }

// stored is a mandate with a stored card, which is not confirmed.
func (b *bundle) stored(card string) autotopup.View {
	b.t.Helper()
	v, err := b.api.Begin(b.mine, change[autotopup.View](b.caller))
	must(b.t, err)
	_, err = control.Pay(b.t.Context(), v.URL, card)
	must(b.t, err)
	b.deliver()
	if v = b.get(v.ID); v.State != autotopup.Unconfirmed || v.URL != "" {
		b.t.Fatalf("stored %+v", v)
	}
	return v
}

// active is a confirmed mandate.
func (b *bundle) active(card string, t autotopup.Terms) autotopup.View {
	b.t.Helper()
	v, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), b.stored(card).ID, t)
	must(b.t, err)
	return v
}

func (b *bundle) get(id ids.Mandate) autotopup.View {
	b.t.Helper()
	v, err := b.api.Get(b.mine, b.caller, id)
	must(b.t, err)
	return v
}

func (b *bundle) run() {
	b.t.Helper()
	must(b.t, b.work.Run(b.t.Context(), b.caller.Tenant))
}

// receive stores the next event of the provider.
func (b *bundle) receive() {
	b.t.Helper()
	select {
	case e := <-b.events:
		at := time.Duration(b.ahead.Swap(0)) // signatures have the time of the provider
		must(b.t, b.api.Receive(b.t.Context(), e.body, e.signature))
		b.ahead.Store(int64(at))
	case <-time.After(10 * time.Second):
		b.t.Fatal("no event came")
	}
}

// deliver receives and processes the next event.
func (b *bundle) deliver() {
	b.t.Helper()
	b.receive()
	b.process()
}

func (b *bundle) process() {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), "SELECT event_id FROM stripe_events WHERE status = 'stored' ORDER BY received_at, event_id")
	must(b.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(b.t, err)
	for _, id := range all {
		e, err := b.work.Gather(b.t.Context(), id)
		must(b.t, err)
		must(b.t, pgx.BeginFunc(b.t.Context(), b.work.DB, func(tx pgx.Tx) error {
			_, err := b.work.Process(b.t.Context(), tx, e)
			return err
		}))
	}
}

func (b *bundle) count(sql string) (n int) {
	b.t.Helper()
	must(b.t, b.db.QueryRow(b.t.Context(), sql).Scan(&n))
	return n
}

func (b *bundle) exec(sql string) {
	b.t.Helper()
	_, err := b.db.Exec(b.t.Context(), sql)
	must(b.t, err)
}

// charges is the number of charges that the provider has tried.
func (b *bundle) charges() int {
	b.t.Helper()
	s, err := b.provider.Status()
	must(b.t, err)
	return s.Charges
}

// wantBalance expects a balance and a consistent ledger.
func (b *bundle) wantBalance(want money.Minor) {
	b.t.Helper()
	books := &ledger.Service{DB: b.db}
	got, _, err := books.Balance(b.t.Context(), b.db, b.caller.Tenant)
	if err != nil || got != want {
		b.t.Errorf("the balance is %d, want %d: %v", got, want, err)
	}
	if r, err := books.Verify(b.t.Context(), ids.Tenant{}); err != nil || r.Difference != 0 || len(r.Faults) > 0 {
		b.t.Errorf("the ledger has faults: %+v, %v", r, err)
	}
}

// subjects returns the subjects of all events, and checks each against the contract.
func (b *bundle) subjects() string {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), "SELECT subject, payload FROM outbox_events ORDER BY seq")
	must(b.t, err)
	var all []string
	var subject string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload}, func() error {
		all = append(all, strings.TrimPrefix(subject, "payments."))
		return asyncapi.Validate(subject, payload)
	})
	must(b.t, err)
	return strings.Join(all, " ")
}
