package payment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// request returns a request with an idempotency key, whose reply is the session's page.
func (b *bundle) request(key string) identity.Change[payment.Session] {
	return identity.Change[payment.Session]{
		Caller: b.caller, Key: identity.Key{Principal: b.caller.Principal(), Method: "POST", Route: "/payments/checkout-session", Key: key},
		Answer: func(s payment.Session) identity.Reply { return identity.Reply{Status: 201, Body: []byte(s.URL)} },
	}
}

func TestBegin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ch := b.request("k1")
	s, err := b.api.Begin(b.mine, ch, price)
	must(t, err)
	at := b.provider.checkoutOf(s)
	if s.State != payment.Initiated || s.URL != at.URL || s.ProviderID != at.ID || at.Amount != price || at.Currency != "EUR" || at.Reference != s.ID.String() {
		t.Errorf("began %+v, and the provider has %+v", s, at)
	}
	if got := b.session(s.ID); got != s {
		t.Errorf("reads as %+v\nwas answered %+v", got, s)
	}
	reply, found, err := b.api.Identity.Replay(b.mine, ch.Key)
	if err != nil || !found || string(reply.Body) != s.URL {
		t.Errorf("replays %q, %v, %v", reply.Body, found, err)
	}
	if n := b.count("SELECT count(*) FROM audit_logs WHERE action = 'payment.begin' AND org_id = $1", b.caller.Tenant); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	if left := time.Until(s.ExpiresAt); left < 59*time.Minute || left > time.Hour {
		t.Errorf("stays open for %s", left)
	}
	second := b.begin(price)
	if second.Customer != s.Customer || b.provider.calls["CreateCustomer"] != 1 {
		t.Errorf("the tenant is %s and %s to the provider", s.Customer, second.Customer)
	}
	page, err := b.api.Sessions(b.mine, b.caller.Tenant, ids.PaymentSession{}, 1)
	if err != nil || len(page) != 1 || page[0].ID != second.ID {
		t.Errorf("lists %+v, %v", page, err)
	}
	page, err = b.api.Sessions(b.mine, b.caller.Tenant, second.ID, 10)
	if err != nil || len(page) != 1 || page[0].ID != s.ID {
		t.Errorf("lists then %+v, %v", page, err)
	}
}

func TestBeginIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, amount := range []paymentAmount{499, 500_001, 0, -1, -1 << 63, 1<<63 - 1} {
		_, err := b.api.Begin(b.mine, b.request("k"), amount)
		wantCode(t, "an amount out of range", err, errs.PaymentAmountOutOfRange)
	}
	for _, amount := range []paymentAmount{500, 500_000} {
		b.begin(amount)
	}
	for ttl, want := range map[time.Duration]time.Duration{0: 35 * time.Minute, 5 * time.Minute: 35 * time.Minute, 24 * time.Hour: 24*time.Hour - 5*time.Minute} {
		b.limits.SessionTTL = ttl
		if left := time.Until(b.begin(price).ExpiresAt); left > want || left < want-time.Minute {
			t.Errorf("a life of %s became %s", ttl, left)
		}
	}
}

// Whatever is lost between two steps, the same request goes on with the same
// session, and the provider opens one.
func TestBeginIsFinishedByItsRepetition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, cancel := context.WithCancel(b.mine)
	b.provider.failing["OpenCheckout"] = context.Canceled
	b.api.PublicURL = func() string { cancel(); return "https://gpuaas.example" } // gone, once the row is committed
	if _, err := b.api.Begin(lost, b.request("k1"), price); !errors.Is(err, context.Canceled) {
		t.Fatalf("began: %v", err)
	}
	b.provider.failing = map[string]error{}
	b.api.PublicURL = func() string { return "https://gpuaas.example" }

	_, err := b.api.Begin(b.mine, b.request("k1"), price+1)
	wantCode(t, "the same key for another amount", err, errs.IdempotencyKeyReused)
	s, err := b.api.Begin(b.mine, b.request("k1"), price)
	must(t, err)
	if n := b.count("SELECT count(*) FROM payment_sessions"); n != 1 || len(b.provider.checkouts) != 1 || b.provider.checkoutOf(s) == nil {
		t.Errorf("%d sessions, %d checkouts", n, len(b.provider.checkouts))
	}
	_, err = b.api.Begin(b.mine, b.request("k1"), price)
	wantCode(t, "a request that was answered", err, errs.IdempotencyInFlight)
}

// A rejection by the provider is final: its response to this id may stay the same for a day. The same
// request creates a new session.
func TestBeginAfterTheProviderFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ failure, want error }{
		"away":    {errs.New(errs.ProviderFailed, "away"), errs.New(errs.ProviderFailed, "")},
		"refused": {payment.ErrRejected, errs.New(errs.ProviderFailed, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.provider.failing["OpenCheckout"] = c.failure // done, and answered so
			if _, err := b.api.Begin(b.mine, b.request("k1"), price); !errors.Is(err, c.want) {
				t.Fatalf("got %v", err)
			}
			b.provider.failing = map[string]error{}
			s, err := b.api.Begin(b.mine, b.request("k1"), price)
			must(t, err)
			if n := b.count("SELECT count(*) FROM payment_sessions WHERE status = 'expired' AND reason = 'never_opened'"); n != 1 {
				t.Errorf("%d sessions are given up", n)
			}
			b.deliver(b.provider.pay(s, false))
			b.processAll()
			b.expect(price)
		})
	}
}

func TestOneRequestAtOnceBeginsOneSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := 0
	for range 20 {
		wg.Go(func() {
			_, err := b.api.Begin(b.mine, b.request("k1"), price)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				began++
			} else if errs.CodeOf(err) != errs.IdempotencyInFlight {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := b.count("SELECT count(*) FROM payment_sessions"); n != 1 || began != 1 {
		t.Errorf("%d sessions, answered %d times", n, began)
	}
}

// Another tenant's session is not found, in any way that a tenant has.
func TestSessionsStayInTheirTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.credited()
	other := b.caller
	other.Tenant, other.User = ids.New[ids.Tenant](), ids.New[ids.User]()
	theirs := pg.WithScope(t.Context(), other.Scope(false))
	_, err := b.api.Session(theirs, other, s.ID)
	wantCode(t, "another tenant's session", err, errs.NotFound)
	_, unknown := b.api.Session(theirs, other, ids.New[ids.PaymentSession]())
	if err.Error() != unknown.Error() {
		t.Errorf("%q differs from %q", err, unknown)
	}
	// Row-level security hides the row even if a query lacks the condition on the tenant.
	_, err = b.api.SessionOf(theirs, s.ID)
	wantCode(t, "by its id alone", err, errs.NotFound)
	for what, list := range map[string]func() (int, error){
		"sessions": func() (int, error) {
			l, err := b.api.Sessions(theirs, b.caller.Tenant, ids.PaymentSession{}, 9)
			return len(l), err
		},
		"all sessions": func() (int, error) {
			l, err := b.api.AllSessions(theirs, payment.Filter{}, ids.PaymentSession{}, 9)
			return len(l), err
		},
		"refunds": func() (int, error) {
			l, err := b.api.Refunds(theirs, ids.Tenant{}, ids.Refund{}, 9)
			return len(l), err
		},
	} {
		if n, err := list(); err != nil || n != 0 {
			t.Errorf("%s: sees %d, %v", what, n, err)
		}
	}
	var events int
	must(t, b.api.DB.QueryRow(b.mine, "SELECT count(*) FROM stripe_events").Scan(&events))
	if events != 0 {
		t.Error("a tenant sees the provider's reports")
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pending := func() paymentAmount {
		amount, err := b.api.Pending(b.mine, b.api.DB, b.caller.Tenant)
		must(t, err)
		return amount
	}
	s := b.begin(price)
	if got := pending(); got != 0 {
		t.Errorf("%d pending before the payment", got)
	}
	b.deliver(b.provider.pay(s, true))
	b.processAll()
	if got := pending(); got != price {
		t.Errorf("%d pending", got)
	}
	b.deliver(b.provider.arrives(s, true))
	b.processAll()
	if got := pending(); got != 0 {
		t.Errorf("%d pending after the credit", got)
	}
}

func TestPortal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for target, want := range map[string]string{
		"": "https://gpuaas.example/", "https://gpuaas.example": "https://gpuaas.example", "https://gpuaas.example/x?y=z": "https://gpuaas.example/x?y=z",
	} {
		if url, err := b.api.Portal(b.mine, identity.Change[string]{Caller: b.caller}, target); err != nil || !strings.HasSuffix(url, "?to="+want) {
			t.Errorf("%q leads to %s, %v", target, url, err)
		}
	}
	for _, target := range []string{"https://gpuaas.example.evil.test/", "//evil.test", "javascript:alert(1)", "https://gpuaas.example@evil.test/", "/billing", "https://gpuaas.example/\r\nX: y", "https://gpuaas.example/%zz"} {
		_, err := b.api.Portal(b.mine, identity.Change[string]{Caller: b.caller}, target)
		wantCode(t, target, err, errs.ValidationError)
	}
}

// The URL of the portal needs no further sign-in, so its stored response is encrypted. A repeated request gets the
// same URL, and the provider opens no second session.
func TestPortalRepliesAreStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring := &envelope.Ring{}
	if err := ring.Replace(map[string][]byte{"k": make([]byte, 32)}, "k"); err != nil {
		t.Fatal(err)
	}
	b.api.Identity.Seal = sealer{ring}
	ch := identity.Change[string]{
		Caller: b.caller, Key: identity.Key{Principal: b.caller.Principal(), Method: "POST", Route: "/portal", Key: "k"},
		Answer: func(url string) identity.Reply { return identity.Reply{Status: 201, Body: []byte(url), Secret: true} },
	}
	url, err := b.api.Portal(b.mine, ch, "")
	if err != nil {
		t.Fatal(err)
	}
	r, found, err := b.api.Identity.Replay(b.mine, ch.Key)
	if err != nil || !found || string(r.Body) != url {
		t.Errorf("stored %q, %v, %v", r.Body, found, err)
	}
	var stored []byte
	if err := b.api.DB.QueryRow(b.mine, `SELECT body FROM idempotency_keys WHERE key = 'k'`).Scan(&stored); err != nil || bytes.Contains(stored, []byte(url)) {
		t.Errorf("stored in clear: %s, %v", stored, err)
	}
}

// sealer opens envelopes with a key in memory.
type sealer struct{ *envelope.Ring }

func (s sealer) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return s.Ring.Open(sealed, at)
}

// If payments are disabled, the endpoints do not exist.
func TestPaymentsAreOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.api.Provider, b.work.Provider = nil, nil
	_, begun := b.api.Begin(b.mine, b.request("k"), price)
	_, portal := b.api.Portal(b.mine, identity.Change[string]{Caller: b.caller}, "")
	_, reconciled := b.api.Reconcile(b.ours, changeOf(b.admin), ids.New[ids.PaymentSession]())
	for what, err := range map[string]error{"begin": begun, "portal": portal, "reconcile": reconciled, "receive": b.api.Receive(t.Context(), nil, "")} {
		wantCode(t, what, err, errs.NotFound)
	}
	b.exec(`INSERT INTO stripe_events (event_id, type, livemode, body, payload, source, created_at) VALUES ('evt_x', 'checkout.session.completed', false, '', '{}', 'webhook', now())`)
	wantCode(t, "an event that needs a query", b.process("evt_x"), errs.NotFound)
	if found, err := b.work.Sweep(t.Context()); err != nil || found != (payment.Found{}) {
		t.Errorf("sweeps %+v, %v", found, err)
	}
}

// The trigger rejects a session without an actor.
func TestSessionsAreAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.api.DB.Exec(b.mine, `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at)
		VALUES ($1, $2, $2, 1, 'EUR', 'initiated', false, now())`, uuid.New(), b.caller.Tenant)
	if err == nil || !strings.Contains(err.Error(), "audit") {
		t.Errorf("got %v", err)
	}
}

// The provider's reason is written to the log and not returned to the caller.
func TestReasonOfTheProviderIsLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var said bytes.Buffer
	b.api.Log = slog.New(slog.NewTextHandler(&said, nil))
	b.provider.failing["OpenPortal"] = fmt.Errorf("%w: no portal is set up", payment.ErrRejected)
	_, err := b.api.Portal(b.mine, identity.Change[string]{Caller: b.caller}, "")
	coded, ok := errors.AsType[*errs.Error](err)
	if !ok || coded.Code != errs.ProviderFailed || strings.Contains(coded.Message+coded.Suggestion, "no portal") || !strings.Contains(said.String(), "no portal is set up") {
		t.Errorf("answers %v, and logs %s", err, said.String())
	}
}
