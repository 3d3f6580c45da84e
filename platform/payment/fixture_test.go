package payment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
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
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
)

const (
	secret = "whsec_of_the_test"
	price  = money.Minor(2500)
)

// provider simulates the payment provider: a payment stays paid, whichever events are delivered. Its
// signatures and event payloads have Stripe's format.
type provider struct {
	*stripe.Client

	mu        sync.Mutex
	made      int
	customers map[ids.Tenant]string
	checkouts map[ids.PaymentSession]*payment.Checkout
	refunds   map[ids.Refund]*payment.Refunded
	external  map[string]payment.Refunded // refunds on the provider's pages, by id
	disputes  map[string]payment.Disputed
	events    []map[string]any
	calls     map[string]int

	failing map[string]error // by method: the call is done, and answered so
	stage   payment.RefundStage
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	c, err := stripe.New(stripe.Config{Key: "sk_test_of_the_test", WebhookSecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return &provider{
		Client: c, customers: map[ids.Tenant]string{}, checkouts: map[ids.PaymentSession]*payment.Checkout{}, refunds: map[ids.Refund]*payment.Refunded{},
		external: map[string]payment.Refunded{}, disputes: map[string]payment.Disputed{},
		calls: map[string]int{}, failing: map[string]error{}, stage: payment.RefundSucceeded,
	}
}

// call counts, and fails what is to fail after it was done.
func (p *provider) call(method string) error {
	p.calls[method]++
	return p.failing[method]
}

func (p *provider) name(kind string) string {
	p.made++
	return fmt.Sprintf("%s_%d", kind, p.made)
}

func (p *provider) CreateCustomer(_ context.Context, n payment.NewCustomer) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.customers[n.Tenant] == "" {
		p.customers[n.Tenant] = p.name("cus")
	}
	return p.customers[n.Tenant], p.call("CreateCustomer")
}

func (p *provider) OpenCheckout(_ context.Context, n payment.NewCheckout) (payment.Checkout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.checkouts[n.Session]
	if c == nil {
		c = &payment.Checkout{
			ID: p.name("cs"), Mode: "payment", Reference: n.Session.String(), Session: n.Session.String(), Customer: n.Customer, Amount: n.Amount, Currency: n.Currency,
			Stage: payment.StageOpen, Paid: payment.PaidLater, ExpiresAt: n.ExpiresAt,
		}
		c.URL = "https://pay.example/" + c.ID
		p.checkouts[n.Session] = c
	}
	return *c, p.call("OpenCheckout")
}

func (p *provider) Checkout(_ context.Context, id string) (payment.Checkout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.checkouts {
		if c.ID == id {
			return *c, p.call("Checkout")
		}
	}
	return payment.Checkout{}, errors.Join(payment.ErrUnknown, p.call("Checkout"))
}

func (p *provider) OpenPortal(_ context.Context, customer, returnURL string) (string, error) {
	return "https://pay.example/portal/" + customer + "?to=" + returnURL, p.call("OpenPortal")
}

func (p *provider) Refund(_ context.Context, n payment.NewRefund) (payment.Refunded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.external[n.ProviderID]; ok {
		return r, p.call("Refund")
	}
	r := p.refunds[n.ID]
	for _, other := range p.refunds { // a query by the id of the provider
		if n.ID == (ids.Refund{}) && other.ID == n.ProviderID {
			r = other
		}
	}
	if r == nil && n.ID == (ids.Refund{}) {
		return payment.Refunded{}, errors.Join(payment.ErrUnknown, p.call("Refund"))
	}
	if r == nil {
		r = &payment.Refunded{ID: p.name("re"), Reference: n.ID.String(), Payment: n.Payment, Amount: n.Amount, Stage: p.stage}
		if p.stage == payment.RefundFailed {
			r.Failure = "expired_or_canceled_card"
		}
		p.refunds[n.ID] = r
	}
	return *r, p.call("Refund")
}

func (p *provider) Dispute(_ context.Context, id string) (payment.Disputed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.disputes[id]
	if !ok {
		return d, errors.Join(payment.ErrUnknown, p.call("Dispute"))
	}
	return d, p.call("Dispute")
}

// refundsElsewhere has an operator refund a payment on the provider's pages, and returns the event.
func (p *provider) refundsElsewhere(s payment.Session, amount money.Minor, stage payment.RefundStage) map[string]any {
	const id = "re_x"
	p.mu.Lock()
	defer p.mu.Unlock()
	p.external[id] = payment.Refunded{ID: id, Payment: s.Payment, Session: s.ID.String(), Amount: amount, Stage: stage}
	return p.note("refund.updated", map[string]any{
		"id": id, "object": "refund", "amount": int64(amount), "status": string(stage), "payment_intent": s.Payment, "metadata": map[string]any{},
	})
}

// disputed moves a dispute of a payment to a stage, and returns the event.
func (p *provider) disputed(id string, s payment.Session, amount money.Minor, stage payment.DisputeStage) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disputes[id] = payment.Disputed{ID: id, Payment: s.Payment, Session: s.ID.String(), Amount: amount, Currency: "EUR", Reason: "fraudulent", Stage: stage}
	return p.note("charge.dispute.updated", map[string]any{"id": id, "object": "dispute", "payment_intent": s.Payment})
}

func (p *provider) Events(_ context.Context, since time.Time, page func([]payment.Event) error) error {
	p.mu.Lock()
	bodies := slices.Clone(p.events)
	p.mu.Unlock()
	slices.Reverse(bodies) // newest first, as Stripe lists
	for chunk := range slices.Chunk(bodies, 3) {
		var events []payment.Event
		for _, e := range chunk {
			body, _ := json.Marshal(e)
			read, err := p.Verify(body, devstripe.Sign(body, secret, time.Now()), time.Now())
			if err != nil {
				return err
			}
			if !read.CreatedAt.Before(since) {
				events = append(events, read)
			}
		}
		if err := page(events); err != nil {
			return err
		}
	}
	return nil
}

// checkoutOf returns the checkout of a session.
func (p *provider) checkoutOf(s payment.Session) *payment.Checkout { return p.checkouts[s.ID] }

// pay pays a checkout, and returns Stripe's event. later: the bank needs some time.
func (p *provider) pay(s payment.Session, later bool) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.checkoutOf(s)
	c.Stage, c.Payment, c.URL = payment.StageComplete, p.name("pi"), ""
	if !later {
		c.Paid = payment.PaidYes
	}
	return p.storeEvent("checkout.session.completed", c)
}

// arrives has the bank pay in the end, or not.
func (p *provider) arrives(s payment.Session, does bool) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.checkoutOf(s)
	if !does {
		e := p.storeEvent("checkout.session.async_payment_failed", c)
		c.Paid = payment.PaidNever
		return e
	}
	c.Paid = payment.PaidYes
	return p.storeEvent("checkout.session.async_payment_succeeded", c)
}

func (p *provider) expires(s payment.Session) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkoutOf(s).Stage, p.checkoutOf(s).URL = payment.StageExpired, ""
	return p.storeEvent("checkout.session.expired", p.checkoutOf(s))
}

// storeEvent stores an event and returns it.
func (p *provider) storeEvent(kind string, c *payment.Checkout) map[string]any {
	object := map[string]any{
		"id": c.ID, "object": "checkout.session", "amount_total": int64(c.Amount), "currency": strings.ToLower(c.Currency), "customer": c.Customer,
		"client_reference_id": c.Reference, "livemode": c.Livemode, "payment_intent": c.Payment, "payment_status": string(c.Paid), "status": string(c.Stage),
		"mode": c.Mode, "expires_at": c.ExpiresAt.Unix(), "metadata": map[string]any{"gpuaas_session": c.Session},
	}
	return p.note(kind, object)
}

func (p *provider) note(kind string, object map[string]any) map[string]any {
	e := map[string]any{
		"id": p.name("evt"), "object": "event", "type": kind, "api_version": "2023-10-16", "created": time.Now().Unix(), "livemode": false,
		"data": map[string]any{"object": object},
	}
	p.events = append(p.events, e)
	return e
}

// with returns a changed copy; keys of the object are written as object.amount_total.
func with(e map[string]any, changes map[string]any) map[string]any {
	e = maps.Clone(e)
	object := maps.Clone(e["data"].(map[string]any)["object"].(map[string]any))
	for name, value := range changes {
		if field, ok := strings.CutPrefix(name, "object."); ok {
			object[field] = value
		} else {
			e[name] = value
		}
	}
	e["data"] = map[string]any{"object": object}
	return e
}

// bundle is a tenant without money, with the API's service and the worker's, each with the rights of its
// role.
type bundle struct {
	t          *testing.T
	db         *pgxpool.Pool
	api, work  *payment.Service
	provider   *provider
	caller     identity.Caller
	admin      identity.Caller
	limits     payment.Limits
	mine, ours context.Context // the caller's scope, and the platform's
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		t: t, db: pgtest.Clone(t), provider: newProvider(t),
		limits: payment.Limits{Min: 500, Max: 500_000, SessionTTL: time.Hour, RefundWindow: 30 * 24 * time.Hour},
	}
	b.do(func(tx pgx.Tx) error {
		seed, err := devseed.Write(t.Context(), tx, nil)
		if err != nil {
			return err
		}
		b.caller = identity.Caller{User: seed.Dev.ID, Tenant: seed.Tenant, TenantName: "dev", CorrelationID: "corr-1"}
		b.admin = identity.Caller{User: seed.Admin.ID, Tenant: seed.Tenant, Role: "admin", CorrelationID: "corr-2"}
		_, err = (&ledger.Service{DB: b.db}).EnsureAccounts(t.Context(), tx, seed.Tenant, "EUR")
		return err
	})
	b.mine, b.ours = pg.WithScope(t.Context(), b.caller.Scope(false)), pg.WithScope(t.Context(), b.admin.Scope(true))
	scoped := pgtest.Scoped(t, b.db)
	worker := pgtest.As(t, b.db, "gpuaas_work")
	b.api, b.work = b.service(scoped, scoped.Pool), b.service(worker, worker)
	return b
}

func (b *bundle) service(db pg.Pool, pool *pgxpool.Pool) *payment.Service {
	queue, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		b.t.Fatal(err)
	}
	return &payment.Service{
		DB: db, Provider: b.provider, Identity: &identity.Service{DB: db}, Ledger: &ledger.Service{DB: db}, Jobs: queue, Naming: ids.DefaultNaming,
		Hints: &hint.Bus{}, Limits: func(identity.Caller) payment.Limits { return b.limits }, PublicURL: func() string { return "https://gpuaas.example" },
		Metrics: payment.NewMetrics(),
	}
}

func (b *bundle) do(work func(pgx.Tx) error) {
	b.t.Helper()
	must(b.t, pgx.BeginFunc(b.t.Context(), b.db, work))
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.db.Exec(b.t.Context(), sql, args...)
	must(b.t, err)
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	must(b.t, b.db.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
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

func (b *bundle) begin(amount money.Minor) payment.Session {
	b.t.Helper()
	s, err := b.api.Begin(b.mine, identity.Change[payment.Session]{Caller: b.caller}, amount)
	must(b.t, err)
	return s
}

// deliver sends an event as the provider does now.
func (b *bundle) deliver(e map[string]any) {
	b.t.Helper()
	body, err := json.Marshal(e)
	must(b.t, err)
	must(b.t, b.api.Receive(b.t.Context(), body, devstripe.Sign(body, secret, time.Now())))
}

// process works on one event, as the job does.
func (b *bundle) process(id string) error {
	told, err := b.work.Gather(b.t.Context(), id)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(b.t.Context(), b.work.DB, func(tx pgx.Tx) error {
		_, err := b.work.Process(b.t.Context(), tx, told)
		return err
	})
}

// processAll processes all stored events and all refunds.
func (b *bundle) processAll() {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), "SELECT event_id FROM stripe_events WHERE status = 'stored' ORDER BY received_at, event_id")
	must(b.t, err)
	events, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(b.t, err)
	for _, id := range events {
		must(b.t, b.process(id))
	}
}

func (b *bundle) session(id ids.PaymentSession) payment.Session {
	b.t.Helper()
	s, err := b.api.Session(b.mine, b.caller, id)
	must(b.t, err)
	return s
}

// credited is a session that was paid for and credited.
func (b *bundle) credited() payment.Session {
	b.t.Helper()
	s := b.begin(price)
	b.deliver(b.provider.pay(s, false))
	b.processAll()
	if s = b.session(s.ID); s.State != payment.Credited {
		b.t.Fatalf("the session is %s: %s", s.State, s.Reason)
	}
	return s
}

// expect expects a balance, a consistent ledger, and that the clearing account equals the money at the
// provider.
func (b *bundle) expect(want money.Minor) {
	b.t.Helper()
	books := &ledger.Service{DB: b.db}
	got, _, err := books.Balance(b.t.Context(), b.db, b.caller.Tenant)
	if err != nil || got != want {
		b.t.Errorf("balance is %d, want %d: %v", got, want, err)
	}
	report, err := books.Verify(b.t.Context(), ids.Tenant{})
	if err != nil || report.Difference != 0 || len(report.Faults) > 0 {
		b.t.Errorf("the ledger has faults: %+v, %v", report, err)
	}
	if open := b.count(`SELECT coalesce(sum(amount_minor - refunded_minor), 0)::int FROM stripe_payments`) +
		b.count(`SELECT coalesce(sum(e.amount_minor), 0)::int FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id WHERE a.name = 'clearing'`); open != 0 {
		b.t.Errorf("clearing and the payments differ by %d", open)
	}
}

// events returns the subjects of all emitted events in order, and checks each against the contract.
func (b *bundle) events() string {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), "SELECT subject, payload FROM outbox_events ORDER BY seq")
	must(b.t, err)
	var all []string
	var subject string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload}, func() error {
		all = append(all, subject)
		return asyncapi.Validate(subject, payload)
	})
	must(b.t, err)
	return strings.Join(all, " ")
}
