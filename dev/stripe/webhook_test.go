package stripe_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
)

func TestAPaymentEndsAtTheWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	e := b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)[0]
	if e.GetObjectValue("id") != s.ID || e.GetObjectValue("payment_status") != "paid" || e.GetObjectValue("payment_intent") != s.PaymentIntent.ID ||
		e.GetObjectValue("client_reference_id") != "ref-1" || e.APIVersion != stripe.APIVersion || e.Livemode || e.Account != "" {
		t.Errorf("%+v", e)
	}
	if got := b.event(t, e.ID); got.Type != e.Type || got.GetObjectValue("id") != s.ID {
		t.Errorf("%+v", got)
	}
}

// A webhook is sent until it is accepted, with a new signature for each attempt.
func TestWebhooksAreSentUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	b.hook.said = []int{500, 302, 404, 503}
	b.paid(t, devstripe.CardPaid)
	b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)
	poll(t, "nothing is left to be sent", func() bool { return len(statusOf(t, b).Deliveries) == 0 })
	if n := b.hook.calls(); n != 5 {
		t.Errorf("%d attempts, want 5", n)
	}
}

// Webhooks wait until a receiver exists, and none is lost.
func TestWebhooksWaitForTheirReceiver(t *testing.T) {
	t.Parallel()
	b := &bundle{Provider: stripetest.Start(t, devstripe.Config{}), hook: receive(t)}
	b.api = apiOf(b.URL, stripetest.SecretKey)
	b.paid(t, devstripe.CardPaid)
	if s, err := b.Status(); err != nil || len(s.Deliveries) != 1 || s.Deliveries[0].Attempts != 0 || s.Webhook != "" {
		t.Errorf("%+v, %v", s, err)
	}
	b.SetWebhook(b.hook.url)
	b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)
}

// A receiver that was unavailable gets its webhooks at once when it returns.
func TestWebhooksDoNotWaitForTheNextPause(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{Pause: func(int) time.Duration { return time.Hour }})
	b.hook.said = []int{503}
	b.paid(t, devstripe.CardPaid)
	poll(t, "the attempt has failed", func() bool { d := statusOf(t, b).Deliveries; return len(d) == 1 && d[0].Attempts == 1 })
	b.SetWebhook(b.hook.url)
	b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"evt_1","object":"event","api_version":"2023-10-16","data":{"object":{}}}`)
	header := devstripe.Sign(body, "whsec_1", time.Now())
	if _, err := webhook.ConstructEvent(body, header, "whsec_1"); err != nil {
		t.Error(err)
	}
	for name, fails := range map[string]func() error{
		"another secret": func() error { return webhook.ValidatePayload(body, header, "whsec_2") },
		"another body":   func() error { return webhook.ValidatePayload(append(body, ' '), header, "whsec_1") },
		"an old one": func() error {
			return webhook.ValidatePayload(body, devstripe.Sign(body, "whsec_1", time.Now().Add(-301*time.Second)), "whsec_1")
		},
	} {
		if fails() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// A restart loses nothing of a payment: neither the session, nor the response of a key, nor a
// pending webhook.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.json")
	hook := receive(t)
	var first, refunded *stripe.Refund
	var s *stripe.CheckoutSession
	var customer *stripe.Customer
	ask := func(b *bundle) *stripe.Customer {
		p := &stripe.CustomerParams{Name: new("a")}
		p.SetIdempotencyKey("key-1")
		c, err := b.api.Customers.New(p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("before", func(t *testing.T) {
		b := &bundle{Provider: stripetest.Start(t, devstripe.Config{Path: path}), hook: hook}
		b.api = apiOf(b.URL, stripetest.SecretKey)
		customer = ask(b)
		s = b.paid(t, devstripe.CardPaid)
		var err error
		if first, err = b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(100))}); err != nil {
			t.Fatal(err)
		}
		b.arm(t, "refund_pending", 1)
		if refunded, err = b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(200))}); err != nil || refunded.Status != "pending" {
			t.Fatal(refunded, err)
		}
		b.arm(t, "webhook_duplicate", 3)
	})
	t.Run("after", func(t *testing.T) {
		b := &bundle{Provider: stripetest.Start(t, devstripe.Config{Path: path}), hook: hook}
		b.api = apiOf(b.URL, stripetest.SecretKey)
		if again := ask(b); again.ID != customer.ID {
			t.Errorf("%+v", again)
		}
		got := b.session(t, s.ID)
		if got.PaymentStatus != "paid" || got.PaymentIntent.ID != s.PaymentIntent.ID || got.Customer.ID != s.Customer.ID {
			t.Errorf("%+v", got)
		}
		if got, err := b.api.Refunds.Get(first.ID, nil); err != nil || got.Amount != 100 {
			t.Errorf("%+v, %v", got, err)
		}
		b.SetWebhook(hook.url)
		events := hook.until(t, stripe.EventTypeCheckoutSessionCompleted, stripe.EventTypeRefundCreated, stripe.EventTypeRefundUpdated)
		if types := typesOf(events); types[0] != "checkout.session.completed" || slices.Index(types, "refund.created") > slices.Index(types, "refund.updated") {
			t.Errorf("not in order: %v", types)
		}
		if st, err := b.Status(); err != nil || len(st.Faults) != 1 || st.Faults[0].Left == 0 {
			t.Errorf("%+v, %v", st.Faults, err)
		}
	})
}

// A double that has ended leaves no goroutine behind.
func TestNothingIsLeftBehind(t *testing.T) { //nolint:paralleltest // others run goroutines of their own
	t.Run("while it runs", func(t *testing.T) {
		b := setup(t, devstripe.Config{Path: filepath.Join(t.TempDir(), "payments.json")})
		b.SetWebhook("http://127.0.0.1:1/nobody")
		b.paid(t, devstripe.CardPaid)
	})
	stacks := make([]byte, 1<<20)
	poll(t, "nothing of the provider runs", func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "stripe.(*Server)")
	})
}

// A redirect is no answer: the body is not sent on.
func TestWebhooksFollowNoRedirect(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	second := receive(t)
	b.hook.redirect = second.url
	b.paid(t, devstripe.CardPaid)
	<-b.hook.heard
	<-b.hook.heard
	if len(second.heard) > 0 {
		t.Error("the webhook went where a redirect led")
	}
	if s, err := b.Status(); err != nil || !strings.Contains(s.Deliveries[0].Problem, http.StatusText(http.StatusTemporaryRedirect)) {
		t.Errorf("%+v, %v", s.Deliveries, err)
	}
}

// The file survives a restart only as a whole: nothing is made of a damaged one.
func TestADamagedFileIsRejected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.json")
	if err := os.WriteFile(path, []byte(`{"Payments":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := devstripe.New(devstripe.Config{URL: "http://127.0.0.1:1", SecretKey: "sk_test_1", WebhookSecret: "w", Path: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != `{"Payments":[` {
		t.Errorf("it was overwritten: %s, %v", text, err)
	}
}

// Events and idempotency keys end after the time for which Stripe stores them. An event that is still to
// be delivered stays.
func TestOldEventsAreDropped(t *testing.T) {
	t.Parallel()
	m := &moved{}
	path := filepath.Join(t.TempDir(), "payments.json")
	for range 2 {
		t.Run("a run", func(t *testing.T) {
			b := &bundle{Provider: stripetest.Start(t, devstripe.Config{Path: path, Clock: m.clock()}), hook: receive(t)}
			b.api = apiOf(b.URL, stripetest.SecretKey)
			p := &stripe.CustomerParams{Name: new("a")}
			p.SetIdempotencyKey("key-1")
			if _, err := b.api.Customers.New(p); err != nil {
				t.Fatal(err)
			}
			b.arm(t, "webhook_drop", 1)
			b.paid(t, devstripe.CardPaid)
			b.paid(t, devstripe.CardPaid)
		})
		m.wait(31 * 24 * time.Hour)
	}
	s := statusOf(t, &bundle{Provider: stripetest.Start(t, devstripe.Config{Path: path, Clock: m.clock()})})
	if s.Events != 2 || len(s.Deliveries) != 2 || s.Customers != 6 {
		t.Errorf("%d events, %d deliveries, %d customers", s.Events, len(s.Deliveries), s.Customers)
	}
}
