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

func TestCustomersAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	made, err := b.api.Customers.New(&stripe.CustomerParams{
		Name: new("Tenant"), Email: new("billing@example.com"), Description: new("d"), Metadata: map[string]string{"tenant": "t1", "7": "seven"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.api.Customers.Get(made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "Tenant" || got.Email != "billing@example.com" || got.Description != "d" || got.Metadata["tenant"] != "t1" || got.Metadata["7"] != "seven" ||
		got.Livemode || got.Object != "customer" || got.Created == 0 || got.LastResponse.RequestID == "" {
		t.Errorf("%+v", got)
	}
}

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
	ended, err := b.api.CheckoutSessions.Expire(made.ID, nil)
	if err != nil || ended.Status != stripe.CheckoutSessionStatusExpired || ended.URL != "" {
		t.Errorf("%+v, %v", ended, err)
	}
	e := b.hook.until(t, stripe.EventTypeCheckoutSessionExpired)[0]
	if e.GetObjectValue("id") != made.ID || e.APIVersion != stripe.APIVersion {
		t.Errorf("%+v", e)
	}
	_, err = b.api.CheckoutSessions.Expire(made.ID, nil)
	refused(t, err, 400, stripe.ErrorTypeInvalidRequest, "", "")
}

// Quantities and items add up, as on the page.
func TestItemsAddUp(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	made := b.page(t, func(p *stripe.CheckoutSessionParams) {
		p.LineItems[0].Quantity = new(int64(3))
		p.LineItems = append(p.LineItems, &stripe.CheckoutSessionLineItemParams{
			Quantity: new(int64(2)),
			PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
				Currency: new("EUR"), UnitAmount: new(int64(1)), ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: new("Fee")},
			},
		})
	})
	if made.AmountTotal != 7502 {
		t.Errorf("%d, want 7502", made.AmountTotal)
	}
}

func TestWhatIsPaidIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	i := b.intent(t, s.PaymentIntent.ID)
	c := b.charge(t, i.LatestCharge.ID)
	if s.Status != stripe.CheckoutSessionStatusComplete || s.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid || s.URL != "" {
		t.Errorf("%+v", s)
	}
	if i.Status != stripe.PaymentIntentStatusSucceeded || i.Amount != 2500 || i.AmountReceived != 2500 || i.Customer.ID != s.Customer.ID || i.Metadata["session"] != "s1" ||
		i.Currency != stripe.CurrencyEUR || i.LastPaymentError != nil {
		t.Errorf("%+v", i)
	}
	if c.Status != stripe.ChargeStatusSucceeded || !c.Paid || !c.Captured || c.Amount != 2500 || c.AmountCaptured != 2500 || c.PaymentIntent.ID != i.ID ||
		c.PaymentMethodDetails.Card.Last4 != "4242" || c.PaymentMethodDetails.Card.Brand != "visa" || c.Refunded {
		t.Errorf("%+v", c)
	}
}

// Refusals have the shape that the official library takes apart.
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
	const item = "line_items[0]"
	for name, c := range map[string]struct {
		do     func() error
		status int
		code   stripe.ErrorCode
		param  string
	}{
		"an unknown customer": {func() error { _, err := b.api.Customers.Get("cus_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "id"},
		"an unknown session":  {func() error { _, err := b.api.CheckoutSessions.Get("cs_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "session"},
		"expiring an unknown": {func() error { _, err := b.api.CheckoutSessions.Expire("cs_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "session"},
		"an unknown intent":   {func() error { _, err := b.api.PaymentIntents.Get("pi_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "intent"},
		"an unknown charge":   {func() error { _, err := b.api.Charges.Get("ch_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "id"},
		"an unknown refund":   {func() error { _, err := b.api.Refunds.Get("re_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "refund"},
		"an unknown event":    {func() error { _, err := b.api.Events.Get("evt_none", nil); return err }, 404, stripe.ErrorCodeResourceMissing, "id"},
		"a portal for nobody": {func() error {
			_, err := b.api.BillingPortalSessions.New(&stripe.BillingPortalSessionParams{})
			return err
		}, 400, stripe.ErrorCodeParameterMissing, "customer"},
		"a portal for a stranger": {func() error {
			_, err := b.api.BillingPortalSessions.New(&stripe.BillingPortalSessionParams{Customer: new("cus_none")})
			return err
		}, 400, stripe.ErrorCodeResourceMissing, "customer"},
		"a refund of nothing": {func() error { _, err := b.api.Refunds.New(&stripe.RefundParams{}); return err }, 400, stripe.ErrorCodeParameterMissing, "charge"},
		"a refund of an unknown": {func() error {
			_, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: new("pi_none")})
			return err
		}, 400, stripe.ErrorCodeResourceMissing, "payment_intent"},
		"no mode":               {page(func(p *stripe.CheckoutSessionParams) { p.Mode = nil }), 400, stripe.ErrorCodeParameterMissing, "mode"},
		"another mode":          {page(func(p *stripe.CheckoutSessionParams) { p.Mode = new("subscription") }), 400, "", "mode"},
		"nothing to come to":    {page(func(p *stripe.CheckoutSessionParams) { p.SuccessURL = nil }), 400, stripe.ErrorCodeParameterMissing, "success_url"},
		"no web address":        {page(func(p *stripe.CheckoutSessionParams) { p.CancelURL = new("javascript:alert(1)") }), 400, stripe.ErrorCodeURLInvalid, "cancel_url"},
		"a page for a stranger": {page(func(p *stripe.CheckoutSessionParams) { p.Customer = new("cus_none") }), 400, stripe.ErrorCodeResourceMissing, "customer"},
		"too soon over":         {page(func(p *stripe.CheckoutSessionParams) { p.ExpiresAt = new(time.Now().Add(20 * time.Minute).Unix()) }), 400, "", "expires_at"},
		"too long open":         {page(func(p *stripe.CheckoutSessionParams) { p.ExpiresAt = new(time.Now().Add(25 * time.Hour).Unix()) }), 400, "", "expires_at"},
		"nothing to buy":        {page(func(p *stripe.CheckoutSessionParams) { p.LineItems = nil }), 400, stripe.ErrorCodeParameterMissing, "line_items"},
		"nothing of it":         {page(func(p *stripe.CheckoutSessionParams) { p.LineItems[0].Quantity = new(int64(0)) }), 400, stripe.ErrorCodeParameterInvalidInteger, item + "[quantity]"},
		"too little":            {page(func(p *stripe.CheckoutSessionParams) { p.LineItems[0].PriceData.UnitAmount = new(int64(49)) }), 400, stripe.ErrorCodeAmountTooSmall, "line_items"},
		"too much": {page(func(p *stripe.CheckoutSessionParams) {
			p.LineItems[0].PriceData.UnitAmount, p.LineItems[0].Quantity = new(int64(99_999_999)), new(int64(1)<<62)
		}), 400, stripe.ErrorCodeAmountTooLarge, item + "[price_data][unit_amount]"},
		"a word too many":      {page(func(p *stripe.CheckoutSessionParams) { p.AllowPromotionCodes = new(true) }), 400, stripe.ErrorCodeParameterUnknown, "allow_promotion_codes"},
		"expanding":            {page(func(p *stripe.CheckoutSessionParams) { p.AddExpand("customer") }), 400, stripe.ErrorCodeParameterUnknown, "expand[0]"},
		"a reference too long": {page(func(p *stripe.CheckoutSessionParams) { p.ClientReferenceID = new(strings.Repeat("r", 201)) }), 400, "", "client_reference_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.do(), c.status, stripe.ErrorTypeInvalidRequest, c.code, c.param)
		})
	}
}

func TestTheDoor(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	_, err := apiOf(b.URL, "sk_test_another").Customers.Get("cus_x", nil)
	refused(t, err, 401, stripe.ErrorTypeInvalidRequest, "", "")
	for name, c := range map[string]struct {
		header map[string]string
		path   string
		status int
	}{
		"no key":                     {map[string]string{"Authorization": ""}, "/v1/events", 401},
		"another version":            {map[string]string{"Stripe-Version": "2024-06-20"}, "/v1/events", 400},
		"a connected account":        {map[string]string{"Stripe-Account": "acct_1"}, "/v1/events", 403},
		"what nobody knows":          {nil, "/v1/subscriptions", 404},
		"nor without a key":          {map[string]string{"Authorization": ""}, "/v1/subscriptions", 401},
		"another name for here":      {map[string]string{"Host": "provider.example"}, "/v1/events", 421},
		"control with an API key":    {nil, "/control/status", 401},
		"no key as Basic's password": {map[string]string{"Authorization": "Basic Onh4"}, "/v1/events", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if answer, body := b.ask(t, http.MethodGet, c.path, "", c.header); answer.StatusCode != c.status {
				t.Errorf("%d %s, want %d", answer.StatusCode, body, c.status)
			}
		})
	}
}

func TestLiveKeysAndForeignNamesAreRefused(t *testing.T) {
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

// A key does its work once, whoever asks again, and stands for that work alone.
func TestKeysAreSpentOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	ask := func(name string) (*stripe.Customer, error) {
		p := &stripe.CustomerParams{Name: &name}
		p.SetIdempotencyKey("key-1")
		return b.api.Customers.New(p)
	}
	made, err := ask("a")
	if err != nil || made.LastResponse.Header.Get("Idempotent-Replayed") != "" {
		t.Fatal(made, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			again, err := ask("a")
			if err != nil || again.ID != made.ID || again.LastResponse.Header.Get("Idempotent-Replayed") != "true" ||
				again.LastResponse.Header.Get("Original-Request") != made.LastResponse.RequestID || again.LastResponse.IdempotencyKey != "key-1" {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
	all.Wait()
	_, err = ask("b")
	refused(t, err, 400, stripe.ErrorTypeIdempotency, "", "")
	p := &stripe.CheckoutSessionParams{Mode: new("payment")}
	p.SetIdempotencyKey("key-1")
	_, err = b.api.CheckoutSessions.New(p)
	refused(t, err, 400, stripe.ErrorTypeIdempotency, "", "")
	if s, err := b.Status(); err != nil || s.Customers != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A refusal came before anything was done: the key is free for a better request.
func TestARefusalKeepsNoKey(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	ask := func(customer string) error {
		p := &stripe.BillingPortalSessionParams{Customer: &customer}
		p.SetIdempotencyKey("key-1")
		_, err := b.api.BillingPortalSessions.New(p)
		return err
	}
	refused(t, ask("cus_none"), 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing, "customer")
	if err := ask(b.customer(t).ID); err != nil {
		t.Error(err)
	}
}

// Lists go newest first, in pages that fit together.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	var made []string
	for range 7 {
		r, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(10))})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, r.ID)
	}
	slices.Reverse(made)
	p := &stripe.RefundListParams{PaymentIntent: &s.PaymentIntent.ID}
	p.Limit = new(int64(3))
	var got []string
	pages := b.api.Refunds.List(p)
	for pages.Next() { // the library asks for the next page by itself
		got = append(got, pages.Refund().ID)
	}
	if err := pages.Err(); err != nil || !slices.Equal(got, made) {
		t.Errorf("%v\n%s", err, cmp.Diff(made, got))
	}
	back := &stripe.RefundListParams{}
	back.EndingBefore, back.Limit, back.Single = &made[5], new(int64(2)), true
	found := b.api.Refunds.List(back).RefundList()
	if len(found.Data) != 2 || found.Data[0].ID != made[3] || found.Data[1].ID != made[4] || !found.HasMore {
		t.Errorf("%+v", found)
	}
	p.StartingAfter = new("re_none")
	again := b.api.Refunds.List(p)
	again.Next()
	refused(t, again.Err(), 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing, "starting_after")
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
	all := []string{"checkout.session.completed", "payment_intent.succeeded", "charge.succeeded", "payment_intent.created", "customer.created"}
	if got := list(func(*stripe.EventListParams) {}); !slices.Equal(got, all) {
		t.Error(cmp.Diff(all, got))
	}
	if got := list(func(p *stripe.EventListParams) {
		p.CreatedRange = &stripe.RangeQueryParams{GreaterThanOrEqual: s.Created - 1}
	}); len(got) != len(all) {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) {
		p.CreatedRange = &stripe.RangeQueryParams{GreaterThan: time.Now().Unix() + 1}
	}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) { p.Type = new("charge.succeeded") }); !slices.Equal(got, all[2:3]) {
		t.Errorf("%v", got)
	}
	if got := list(func(p *stripe.EventListParams) { p.Types = []*string{new("charge.succeeded"), new("customer.created")} }); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// What was created by a call names that call.
func TestEventsNameTheirRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	p := &stripe.CustomerParams{Name: new("a")}
	p.SetIdempotencyKey("key-1")
	made, err := b.api.Customers.New(p)
	if err != nil {
		t.Fatal(err)
	}
	all := b.api.Events.List(&stripe.EventListParams{Type: new("customer.created")})
	if !all.Next() || all.Event().Request.ID != made.LastResponse.RequestID || all.Event().Request.IdempotencyKey != "key-1" {
		t.Errorf("%+v", all.Event())
	}
	got, err := b.api.Events.Get(all.Event().ID, nil)
	if err != nil || got.GetObjectValue("id") != made.ID || got.PendingWebhooks != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A secret never stands where others read it.
func TestNothingTellsTheKeys(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b := setup(t, devstripe.Config{Log: log.logger()})
	b.hook.said = []int{500}
	b.arm(t, "api_lost", 1)
	_, err := b.api.Customers.New(&stripe.CustomerParams{})
	refused(t, err, 500, stripe.ErrorTypeAPI, "", "")
	b.paid(t, devstripe.CardPaid)
	b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted)
	_, wrong := apiOf(b.URL, "sk_test_mistyped").Customers.Get("cus_x", nil)
	status, err := b.access().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := log.String() + wrong.Error() + cmp.Diff(nil, status)
	if !strings.Contains(text, "was not taken") {
		t.Errorf("the log says nothing of the failed delivery: %s", text)
	}
	for _, secret := range []string{stripetest.SecretKey, stripetest.WebhookSecret, stripetest.ControlToken, "sk_test_mistyped", devstripe.CardPaid} {
		if strings.Contains(text, secret) {
			t.Errorf("%s stands in: %s", secret, text)
		}
	}
}
