package stripe_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"
	"github.com/stripe/stripe-go/v76/webhook"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// receiver verifies webhooks with the official library.
type receiver struct {
	url string

	mu     sync.Mutex
	events []stripe.Event
	said   []int // statuses to answer with first
	// redirect is the address to which the receiver redirects every webhook.
	redirect string
	called   int
	heard    chan struct{}
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{heard: make(chan struct{}, 1000)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	event, err := webhook.ConstructEventWithOptions(body, q.Header.Get("Stripe-Signature"), stripetest.WebhookSecret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called++
	status := http.StatusOK
	switch {
	case err != nil:
		status = http.StatusBadRequest
	case len(r.said) > 0:
		status, r.said = r.said[0], r.said[1:]
	}
	if status == http.StatusOK && r.redirect == "" {
		r.events = append(r.events, event)
	}
	if r.redirect != "" {
		http.Redirect(w, q, r.redirect, http.StatusTemporaryRedirect)
	} else {
		w.WriteHeader(status)
	}
	r.heard <- struct{}{}
}

// until waits for events of the types, in any sequence, and returns all events.
func (r *receiver) until(t *testing.T, types ...stripe.EventType) []stripe.Event {
	t.Helper()
	end := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		events := slices.Clone(r.events)
		r.mu.Unlock()
		var seen []stripe.EventType
		for _, e := range events {
			seen = append(seen, e.Type)
		}
		missing := slices.DeleteFunc(slices.Clone(types), func(t stripe.EventType) bool {
			n := slices.Index(seen, t)
			if n >= 0 {
				seen = slices.Delete(seen, n, n+1)
			}
			return n >= 0
		})
		if len(missing) == 0 {
			return events
		}
		select {
		case <-r.heard:
		case <-end:
			t.Fatalf("no %v; there came %v", missing, seen)
		}
	}
}

// calls returns the number of webhook calls.
func (r *receiver) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.called
}

// typesOf returns the types of the events oldest first.
func typesOf(events []stripe.Event) (types []string) {
	for _, e := range events {
		types = append(types, string(e.Type))
	}
	return types
}

// wantError expects an error of the API.
func wantError(t *testing.T, err error, status int, kind stripe.ErrorType, code stripe.ErrorCode, param string) {
	t.Helper()
	no, ok := errors.AsType[*stripe.Error](err)
	if !ok || no.HTTPStatusCode != status || no.Type != kind || no.Code != code || no.Param != param || no.Msg == "" || no.RequestID == "" {
		t.Errorf("%v, want %d %s %s of %q", err, status, kind, code, param)
	}
}

// bundle is a provider, its client and its webhook.
type bundle struct {
	*stripetest.Provider

	api  *client.API
	hook *receiver
}

func setup(t *testing.T, cfg devstripe.Config) *bundle {
	t.Helper()
	b := &bundle{Provider: stripetest.Start(t, cfg), hook: receive(t)}
	b.SetWebhook(b.hook.url)
	b.api = apiOf(b.URL, stripetest.SecretKey)
	return b
}

func apiOf(url, key string) *client.API {
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: new(url), MaxNetworkRetries: new(int64(0)), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return client.New(key, &stripe.Backends{API: backend, Connect: backend, Uploads: backend})
}

func (b *bundle) customer(t *testing.T) *stripe.Customer {
	t.Helper()
	c, err := b.api.Customers.New(&stripe.CustomerParams{Name: new("Tenant"), Metadata: map[string]string{"tenant": "t1"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// page opens one for EUR 25.00.
func (b *bundle) page(t *testing.T, change ...func(*stripe.CheckoutSessionParams)) *stripe.CheckoutSession {
	t.Helper()
	p := &stripe.CheckoutSessionParams{
		Mode: new("payment"), SuccessURL: new("http://127.0.0.1:8080/paid?session={CHECKOUT_SESSION_ID}"),
		CancelURL: new("http://127.0.0.1:8080/billing"), ClientReferenceID: new("ref-1"),
		LineItems: []*stripe.CheckoutSessionLineItemParams{{
			Quantity: new(int64(1)),
			PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
				Currency: new("eur"), UnitAmount: new(int64(2500)),
				ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: new("Balance")},
			},
		}},
		Metadata:          map[string]string{"session": "s1"},
		PaymentIntentData: &stripe.CheckoutSessionPaymentIntentDataParams{Metadata: map[string]string{"session": "s1"}},
	}
	for _, c := range change {
		c(p)
	}
	s, err := b.api.CheckoutSessions.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// paid is a page of a customer, paid by card.
func (b *bundle) paid(t *testing.T, number string) *stripe.CheckoutSession {
	t.Helper()
	who := b.customer(t)
	made := b.page(t, func(p *stripe.CheckoutSessionParams) { p.Customer = &who.ID })
	if _, err := control.Pay(t.Context(), made.URL, number); err != nil {
		t.Fatal(err)
	}
	return b.session(t, made.ID)
}

func (b *bundle) session(t *testing.T, id string) *stripe.CheckoutSession {
	t.Helper()
	s, err := b.api.CheckoutSessions.Get(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bundle) intent(t *testing.T, id string) *stripe.PaymentIntent {
	t.Helper()
	i, err := b.api.PaymentIntents.Get(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// event returns an event as the API lists it.
func (b *bundle) event(t *testing.T, id string) *stripe.Event {
	t.Helper()
	all := b.api.Events.List(&stripe.EventListParams{})
	for all.Next() {
		if all.Event().ID == id {
			return all.Event()
		}
	}
	t.Fatalf("event %s is not listed: %v", id, all.Err())
	return nil
}

func (b *bundle) arm(t *testing.T, name string, count int) {
	t.Helper()
	if err := b.Arm(name, count); err != nil {
		t.Fatal(err)
	}
}

// send sends a request that no library would send.
func (b *bundle) send(t *testing.T, method, path, body string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+stripetest.SecretKey)
	for name, value := range header {
		if r.Header.Set(name, value); value == "" {
			r.Header.Del(name)
		}
	}
	if host := header["Host"]; host != "" {
		r.Host = host
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func (b *bundle) access() control.Access {
	return control.Access{URL: b.URL, SecretKey: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, ControlToken: stripetest.ControlToken}
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// moved is a clock that a test moves.
type moved struct{ ahead atomic.Int64 }

func (m *moved) clock() clock.Clock {
	return clock.At(func() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) })
}

func (m *moved) wait(d time.Duration) { m.ahead.Add(int64(d)) }

// poll waits until something is so.
func poll(t *testing.T, what string, so func() bool) {
	t.Helper()
	end := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-end:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}
