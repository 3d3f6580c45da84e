package stripe_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v76"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
)

func TestAPageForOnePayment(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	who := b.customer(t)
	made := b.page(t, func(p *stripe.CheckoutSessionParams) { p.Customer = &who.ID })
	for _, s := range []*stripe.CheckoutSession{made, b.session(t, made.ID)} {
		if s.AmountTotal != 2500 || s.Currency != stripe.CurrencyEUR || s.Customer.ID != who.ID || s.Status != stripe.CheckoutSessionStatusOpen ||
			s.PaymentStatus != stripe.CheckoutSessionPaymentStatusUnpaid || s.URL == "" || s.PaymentIntent != nil || s.ClientReferenceID != "ref-1" ||
			s.Metadata["session"] != "s1" || s.Livemode || s.Mode != stripe.CheckoutSessionModePayment || s.ExpiresAt-s.Created != 24*60*60 {
			t.Errorf("%+v", s)
		}
	}
}

func TestPaymentsAppearEverywhere(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	i := b.intent(t, s.PaymentIntent.ID)
	if s.Status != stripe.CheckoutSessionStatusComplete || s.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid || s.URL != "" {
		t.Errorf("%+v", s)
	}
	if i.Status != stripe.PaymentIntentStatusSucceeded || i.Amount != 2500 || i.AmountReceived != 2500 || i.Customer.ID != s.Customer.ID || i.Metadata["session"] != "s1" ||
		i.Currency != stripe.CurrencyEUR || i.LastPaymentError != nil {
		t.Errorf("%+v", i)
	}
}

// Errors have the format that the official library parses.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	page := func(change func(*stripe.CheckoutSessionParams)) func() error {
		return func() error {
			p := &stripe.CheckoutSessionParams{
				Mode: new("payment"), SuccessURL: new("http://127.0.0.1/paid"),
				LineItems: []*stripe.CheckoutSessionLineItemParams{{Quantity: new(int64(1)), PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
					Currency: new("eur"), UnitAmount: new(int64(2500)), ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: new("Balance")},
				}}},
			}
			change(p)
			_, err := b.api.CheckoutSessions.New(p)
			return err
		}
	}
	for name, c := range map[string]struct {
		do     func() error
		status int
		code   stripe.ErrorCode
		param  string
	}{
		"an unknown session": {func() error { _, err := b.api.CheckoutSessions.Get("cs_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "session"},
		"an unknown intent":  {func() error { _, err := b.api.PaymentIntents.Get("pi_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "intent"},
		"an unknown refund":  {func() error { _, err := b.api.Refunds.Get("re_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "refund"},
		"a portal for an unknown customer": {func() error {
			_, err := b.api.BillingPortalSessions.New(&stripe.BillingPortalSessionParams{Customer: new("cus_none")})
			return err
		}, 400, stripe.ErrorCodeResourceMissing, "customer"},
		"a refund of an unknown intent": {func() error {
			_, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: new("pi_none")})
			return err
		}, 400, stripe.ErrorCodeResourceMissing, "payment_intent"},
		"another mode":        {page(func(p *stripe.CheckoutSessionParams) { p.Mode = new("subscription") }), 400, "", "mode"},
		"no success URL":      {page(func(p *stripe.CheckoutSessionParams) { p.SuccessURL = nil }), 400, stripe.ErrorCodeParameterMissing, "success_url"},
		"an unknown customer": {page(func(p *stripe.CheckoutSessionParams) { p.Customer = new("cus_none") }), 400, stripe.ErrorCodeResourceMissing, "customer"},
		"too short":           {page(func(p *stripe.CheckoutSessionParams) { p.ExpiresAt = new(time.Now().Add(20 * time.Minute).Unix()) }), 400, "", "expires_at"},
		"too long":            {page(func(p *stripe.CheckoutSessionParams) { p.ExpiresAt = new(time.Now().Add(25 * time.Hour).Unix()) }), 400, "", "expires_at"},
		"more than one item":  {page(func(p *stripe.CheckoutSessionParams) { p.LineItems[0].Quantity = new(int64(2)) }), 400, "", "line_items"},
		"too little":          {page(func(p *stripe.CheckoutSessionParams) { p.LineItems[0].PriceData.UnitAmount = new(int64(49)) }), 400, stripe.ErrorCodeAmountTooSmall, "line_items"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, c.do(), c.status, stripe.ErrorTypeInvalidRequest, c.code, c.param)
		})
	}
}

func TestTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	_, err := apiOf(b.URL, "sk_test_another").Refunds.Get("re_x", nil)
	wantError(t, err, 401, stripe.ErrorTypeInvalidRequest, "", "")
	for name, c := range map[string]struct {
		header map[string]string
		path   string
		status int
	}{
		"no key":                  {map[string]string{"Authorization": ""}, "/v1/events", 401},
		"another version":         {map[string]string{"Stripe-Version": "2024-06-20"}, "/v1/events", 400},
		"an unknown path":         {nil, "/v1/subscriptions", 404},
		"another name for here":   {map[string]string{"Host": "provider.example"}, "/v1/events", 421},
		"control with an API key": {nil, "/control/status", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if answer, body := b.send(t, http.MethodGet, c.path, "", c.header); answer.StatusCode != c.status {
				t.Errorf("%d %s, want %d", answer.StatusCode, body, c.status)
			}
		})
	}
}

func TestLiveKeysAndForeignNamesAreRejected(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]devstripe.Config{
		"a live key":       {URL: "http://127.0.0.1:1", SecretKey: "sk_live_1", WebhookSecret: "w"},
		"a foreign name":   {URL: "http://pay.example", SecretKey: "sk_test_1", WebhookSecret: "w"},
		"no hook's secret": {URL: "http://127.0.0.1:1", SecretKey: "sk_test_1"},
	} {
		if _, err := devstripe.New(cfg); err == nil || strings.Contains(err.Error(), "sk_live_1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An idempotency key works once, for every repetition of one request and for no other request.
func TestKeysAreSpentOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	ask := func(name string) (*stripe.Customer, error) {
		p := &stripe.CustomerParams{Name: &name}
		p.SetIdempotencyKey("key-1")
		return b.api.Customers.New(p)
	}
	made, err := ask("a")
	if err != nil {
		t.Fatal(made, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			again, err := ask("a")
			if err != nil || again.ID != made.ID {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
	all.Wait()
	_, err = ask("b")
	wantError(t, err, 400, stripe.ErrorTypeIdempotency, "", "")
	p := &stripe.CheckoutSessionParams{Mode: new("payment")}
	p.SetIdempotencyKey("key-1")
	_, err = b.api.CheckoutSessions.New(p)
	wantError(t, err, 400, stripe.ErrorTypeIdempotency, "", "")
	if s, err := b.Status(); err != nil || s.Customers != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A rejected request has changed nothing, so its key is free for a corrected request.
func TestARejectionKeepsNoKey(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	ask := func(customer string) error {
		p := &stripe.BillingPortalSessionParams{Customer: &customer}
		p.SetIdempotencyKey("key-1")
		_, err := b.api.BillingPortalSessions.New(p)
		return err
	}
	wantError(t, ask("cus_none"), 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing, "customer")
	if err := ask(b.customer(t).ID); err != nil {
		t.Error(err)
	}
}

func TestEventsAreListedByTimeAndType(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	list := func(change func(*stripe.EventListParams)) (types []string) {
		p := &stripe.EventListParams{}
		change(p)
		all := b.api.Events.List(p)
		for all.Next() {
			types = append(types, string(all.Event().Type))
		}
		if all.Err() != nil {
			t.Fatal(all.Err())
		}
		return types
	}
	if _, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID}); err != nil {
		t.Fatal(err)
	}
	all := []string{"refund.created", "checkout.session.completed"}
	if got := list(func(*stripe.EventListParams) {}); !slices.Equal(got, all) {
		t.Error(cmp.Diff(all, got))
	}
	if got := list(func(p *stripe.EventListParams) {
		p.CreatedRange = &stripe.RangeQueryParams{GreaterThanOrEqual: s.Created - 1}
	}); len(got) != len(all) {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) {
		p.CreatedRange = &stripe.RangeQueryParams{GreaterThanOrEqual: time.Now().Unix() + 2}
	}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) { p.Type = new("refund.created") }); !slices.Equal(got, all[:1]) {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) {
		p.Types = []*string{new("refund.created"), new("checkout.session.completed")}
	}); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// A secret never appears where other users can read it.
func TestNothingContainsTheKeys(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b := setup(t, devstripe.Config{Log: log.logger()})
	b.hook.said = []int{500}
	b.arm(t, "api_lost", 1)
	_, err := b.api.Customers.New(&stripe.CustomerParams{})
	wantError(t, err, 500, stripe.ErrorTypeAPI, "", "")
	b.paid(t, devstripe.CardPaid)
	b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)
	_, wrong := apiOf(b.URL, "sk_test_mistyped").Refunds.Get("re_x", nil)
	status, err := b.access().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := log.String() + wrong.Error() + cmp.Diff(nil, status)
	if !strings.Contains(text, "rejected an event") {
		t.Errorf("the log does not contain the failed delivery: %s", text)
	}
	for _, secret := range []string{stripetest.SecretKey, stripetest.WebhookSecret, stripetest.ControlToken, "sk_test_mistyped", devstripe.CardPaid} {
		if strings.Contains(text, secret) {
			t.Errorf("%s was found in: %s", secret, text)
		}
	}
}
