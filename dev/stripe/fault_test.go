package stripe_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v76"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
)

const completed = stripe.EventTypeCheckoutSessionCompleted

// Events with false content: only the event is wrong, the API is right.
func TestEventsThatLie(t *testing.T) {
	t.Parallel()
	for fault, differs := range map[string]func(e *stripe.Event, s *stripe.CheckoutSession) bool{
		"event_amount": func(e *stripe.Event, _ *stripe.CheckoutSession) bool {
			return e.GetObjectValue("amount_total") == "2600"
		},
		"event_currency": func(e *stripe.Event, _ *stripe.CheckoutSession) bool { return e.GetObjectValue("currency") == "usd" },
		"event_customer": func(e *stripe.Event, s *stripe.CheckoutSession) bool {
			return e.GetObjectValue("customer") != s.Customer.ID
		},
		"event_reference": func(e *stripe.Event, _ *stripe.CheckoutSession) bool {
			return e.GetObjectValue("client_reference_id") != "ref-1"
		},
		"event_livemode": func(e *stripe.Event, _ *stripe.CheckoutSession) bool {
			return e.Livemode && e.GetObjectValue("livemode") == "true"
		},
		"event_account": func(e *stripe.Event, _ *stripe.CheckoutSession) bool { return e.Account != "" },
		"event_version": func(e *stripe.Event, _ *stripe.CheckoutSession) bool { return e.APIVersion != stripe.APIVersion },
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := setup(t, devstripe.Config{})
			b.arm(t, fault, 1)
			first, second := b.paid(t, devstripe.CardPaid), b.paid(t, devstripe.CardPaid)
			events := b.hook.until(t, completed, completed)
			if !differs(&events[0], first) || !differs(b.event(t, events[0].ID), first) {
				t.Errorf("%+v is correct", events[0])
			}
			if events[0].GetObjectValue("id") != first.ID || differs(&events[1], second) {
				t.Errorf("%+v lies as well", events[1])
			}
			if s := b.session(t, first.ID); s.AmountTotal != 2500 || s.Currency != "eur" || s.Livemode || s.ClientReferenceID != "ref-1" || s.Customer.ID != first.Customer.ID {
				t.Errorf("the payment itself is another now: %+v", s)
			}
		})
	}
}

func TestWebhooksThatAreLost(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	b.arm(t, "webhook_drop", 1)
	first, second := b.paid(t, devstripe.CardPaid), b.paid(t, devstripe.CardPaid)
	events := b.hook.until(t, completed)
	if len(events) != 1 || events[0].GetObjectValue("id") != second.ID {
		t.Errorf("%v", typesOf(events))
	}
	// The client finds a missed event in the list.
	all := b.api.Events.List(&stripe.EventListParams{Type: new(string(completed))})
	var found []string
	for all.Next() {
		found = append(found, all.Event().GetObjectValue("id"))
	}
	if !slices.Equal(found, []string{second.ID, first.ID}) {
		t.Errorf("%v", found)
	}
	// The webhook of it can still be sent.
	lost := slices.IndexFunc(statusOf(t, b).Deliveries, func(d devstripe.Delivery) bool { return d.GaveUp })
	if lost < 0 {
		t.Fatalf("%+v", statusOf(t, b))
	}
	if _, err := b.Deliver(statusOf(t, b).Deliveries[lost].Event); err != nil {
		t.Fatal(err)
	}
	if events := b.hook.until(t, completed, completed); events[1].GetObjectValue("id") != first.ID {
		t.Errorf("%+v", events[1])
	}
}

func statusOf(t *testing.T, b *bundle) devstripe.Status {
	t.Helper()
	s, err := b.Status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWebhooksThatComeLate(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{Late: time.Hour})
	b.arm(t, "webhook_delay", 1)
	late, soon := b.paid(t, devstripe.CardPaid), b.paid(t, devstripe.CardPaid)
	if events := b.hook.until(t, completed); len(events) != 1 || events[0].GetObjectValue("id") != soon.ID {
		t.Errorf("%v", typesOf(events))
	}
	poll(t, "one is delayed alone", func() bool { return len(statusOf(t, b).Deliveries) == 1 })
	if sent, err := b.Deliver(""); err != nil || sent != 1 {
		t.Fatal(sent, err)
	}
	if events := b.hook.until(t, completed, completed); events[1].GetObjectValue("id") != late.ID {
		t.Errorf("%+v", events)
	}
}

func TestWebhooksThatComeTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	b.arm(t, "webhook_duplicate", 1)
	b.paid(t, devstripe.CardPaid)
	if events := b.hook.until(t, completed, completed); events[0].ID != events[1].ID {
		t.Errorf("%+v", events)
	}
}

func TestWebhooksThatOvertake(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{Late: time.Hour, CompleteAfter: time.Millisecond})
	b.arm(t, "webhook_reorder", 1)
	b.paid(t, devstripe.CardLater)
	want := []string{string(stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded), string(completed)}
	if got := typesOf(b.hook.until(t, stripe.EventType(want[0]), completed)); !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// An invalid signature is rejected, and the next attempt has a valid one.
func TestWebhooksThatAreForged(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"webhook_forged", "webhook_stale"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := setup(t, devstripe.Config{})
			b.arm(t, fault, 1)
			b.paid(t, devstripe.CardPaid)
			if events := b.hook.until(t, completed); len(events) != 1 {
				t.Errorf("%v", typesOf(events))
			}
			if n := b.hook.calls(); n != 2 {
				t.Errorf("%d attempts, want one that is rejected and one that is accepted", n)
			}
		})
	}
}

// Failing calls: what was executed, and which response a retry with the same key gets.
func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct {
		made   int  // by the call that failed
		healed bool // a retry with the key returns the result
	}{
		"api_error": {0, true},
		"api_lost":  {1, true},
		"api_kept":  {1, false},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := setup(t, devstripe.Config{})
			ask := func() (*stripe.Customer, error) {
				p := &stripe.CustomerParams{Name: new("a")}
				p.SetIdempotencyKey("key-1")
				return b.api.Customers.New(p)
			}
			b.arm(t, fault, 1)
			_, err := ask()
			wantError(t, err, 500, stripe.ErrorTypeAPI, "", "")
			if n := statusOf(t, b).Customers; n != want.made {
				t.Errorf("%d were made, want %d", n, want.made)
			}
			again, err := ask()
			if !want.healed {
				wantError(t, err, 500, stripe.ErrorTypeAPI, "", "")
				return
			}
			if err != nil || again.Name != "a" {
				t.Errorf("%+v, %v", again, err)
			}
			if n := statusOf(t, b).Customers; n != 1 {
				t.Errorf("%d were made, want 1", n)
			}
		})
	}
}

// Over the wire, as the command line does it.
func TestControl(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{Late: time.Hour})
	c := b.access()
	if err := c.Arm(t.Context(), "webhook_delay", 2); err != nil {
		t.Fatal(err)
	}
	if err := c.Arm(t.Context(), "refund_failed", 1); err != nil {
		t.Fatal(err)
	}
	s := b.page(t)
	for _, ref := range []string{s.ID, s.URL, "ref-1"} {
		if page, err := c.Page(t.Context(), ref); err != nil || page != s.URL {
			t.Errorf("%s: %s, %v", ref, page, err)
		}
	}
	if _, err := control.Pay(t.Context(), s.URL, devstripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	got, err := c.Status(t.Context())
	if err != nil || len(got.Faults) != 2 || got.Faults[1].Left != 1 || got.Faults[0].Does == "" || got.Charges != 1 || len(got.Deliveries) != 1 ||
		got.Deliveries[0].Type != string(completed) || got.Pages[0].ID != s.ID || got.Pages[0].PaymentStatus != "paid" || got.Pages[0].Currency != "EUR" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent, err := c.Deliver(t.Context(), ""); err != nil || sent != 1 {
		t.Errorf("%d, %v", sent, err)
	}
	e := b.hook.until(t, completed)[0]
	if sent, err := c.Deliver(t.Context(), e.ID); err != nil || sent != 1 {
		t.Errorf("%d, %v", sent, err)
	}
	b.hook.until(t, completed, completed)
	if got, err := c.Status(t.Context()); err != nil || len(got.Faults) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, ask := range map[string]func() error{
		"an unknown fault":      func() error { return c.Arm(t.Context(), "meteor", 1) },
		"less than none":        func() error { return c.Arm(t.Context(), "webhook_drop", -1) },
		"an unknown event":      func() error { _, err := c.Deliver(t.Context(), "evt_none"); return err },
		"an unknown page":       func() error { _, err := c.Page(t.Context(), "cs_none"); return err },
		"no page":               func() error { _, err := c.Page(t.Context(), ""); return err },
		"a page somewhere else": func() error { _, err := c.Page(t.Context(), "http://evil.example/c/pay/cs_1"); return err },
	} {
		if no, ok := errors.AsType[*control.DeniedError](ask()); !ok || no.Status != 404 {
			t.Errorf("%s: %v", name, no)
		}
	}
	c.ControlToken = "guessed"
	_, err = c.Status(t.Context())
	if no, ok := errors.AsType[*control.DeniedError](err); !ok || no.Status != 401 {
		t.Errorf("a guessed token: %v", err)
	}
}

// Every listed fault has a description and can be injected.
func TestFaultsAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	names, does := devstripe.Faults()
	for _, name := range names {
		if err := b.Arm(name, 1); err != nil || does[name] == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(names) < 15 || len(statusOf(t, b).Faults) != len(names) {
		t.Errorf("%v", names)
	}
}
