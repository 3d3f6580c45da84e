package checkout_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/gpuaas/gpuaas/internal/checkout"
	"github.com/gpuaas/gpuaas/internal/checkout/checkouttest"
)

// receiver takes webhooks as their receiver does: by the official library.
type receiver struct {
	url string

	mu     sync.Mutex
	events []stripe.Event
	said   []int // statuses to answer with first
	heard  chan struct{}
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
	event, err := webhook.ConstructEventWithOptions(body, q.Header.Get("Stripe-Signature"), checkouttest.WebhookSecret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	status := http.StatusOK
	switch {
	case err != nil:
		status = http.StatusBadRequest
	case len(r.said) > 0:
		status, r.said = r.said[0], r.said[1:]
	}
	if status == http.StatusOK {
		r.events = append(r.events, event)
	}
	w.WriteHeader(status)
	r.heard <- struct{}{}
}

// bundle is a provider, its client and its webhook.
type bundle struct {
	*checkouttest.Provider

	api  *client.API
	hook *receiver
}

func setup(t *testing.T, cfg checkout.Config) *bundle {
	t.Helper()
	b := &bundle{Provider: checkouttest.Start(t, cfg), hook: receive(t)}
	b.SetWebhook(b.hook.url)
	b.api = apiOf(b.URL, checkouttest.SecretKey)
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

func TestAPageForOnePayment(t *testing.T) {
	t.Parallel()
	b := setup(t, checkout.Config{})
	who := b.customer(t)
	made := b.page(t, func(p *stripe.CheckoutSessionParams) { p.Customer = new(who.ID) })
	got, err := b.api.CheckoutSessions.Get(made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*stripe.CheckoutSession{made, got} {
		if s.AmountTotal != 2500 || s.Currency != stripe.CurrencyEUR || s.Customer.ID != who.ID || s.Status != stripe.CheckoutSessionStatusOpen ||
			s.PaymentStatus != stripe.CheckoutSessionPaymentStatusUnpaid || s.URL == "" || s.PaymentIntent != nil || s.ClientReferenceID != "ref-1" ||
			s.Metadata["session"] != "s1" || s.Livemode || s.Mode != stripe.CheckoutSessionModePayment || s.ExpiresAt-s.Created != 24*60*60 {
			t.Errorf("%+v", s)
		}
	}
	ended, err := b.api.CheckoutSessions.Expire(made.ID, nil)
	if err != nil || ended.Status != stripe.CheckoutSessionStatusExpired || ended.URL != "" {
		t.Errorf("%+v, %v", ended, err)
	}
	<-b.hook.heard
	if e := b.hook.events[0]; e.Type != stripe.EventTypeCheckoutSessionExpired || e.GetObjectValue("id") != made.ID || e.APIVersion != stripe.APIVersion {
		t.Errorf("%+v", e)
	}
}

func TestAPaymentEndsAtTheWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t, checkout.Config{})
	who := b.customer(t)
	made := b.page(t, func(p *stripe.CheckoutSessionParams) { p.Customer = new(who.ID) })
	next, err := checkout.Pay(t.Context(), made.URL, checkout.CardPaid)
	if err != nil || next != "http://127.0.0.1:8080/paid?session="+made.ID {
		t.Fatalf("sent to %q, %v", next, err)
	}
	<-b.hook.heard
	e := b.hook.events[0]
	if e.Type != stripe.EventTypeCheckoutSessionCompleted || e.GetObjectValue("id") != made.ID || e.GetObjectValue("payment_status") != "paid" || e.APIVersion != stripe.APIVersion {
		t.Errorf("%+v", e)
	}
}
