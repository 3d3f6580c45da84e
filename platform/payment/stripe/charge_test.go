package stripe_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/payment"
)

const (
	chargedIntent = `{"id":"pi_1","object":"payment_intent","amount":5000,"amount_received":5000,"currency":"eur","customer":"cus_1","status":%q,"metadata":{"gpuaas_session":%q}%s}`
	listedIntents = `{"object":"list","url":"/v1/payment_intents","has_more":false,"data":[%s]}`
	declinedNow   = `{"error":{"type":"card_error","code":%q,"decline_code":%q,"message":"No.","payment_intent":%s}}`
)

// Charge searches for an existing charge first, because the first response may be lost and the key of a
// request is valid for a day. A decline is a result and no error.
func TestChargeReadsBeforeItRequests(t *testing.T) {
	t.Parallel()
	n := payment.NewCharge{
		Session: ids.New[ids.PaymentSession](), Tenant: ids.New[ids.Tenant](), Month: "2026-01", Number: 3, Customer: "cus_1", Method: "pm_1",
		Amount: 5000, Currency: "EUR", CreatedAt: time.Unix(1700000000, 0),
	}
	intent := func(status, session, more string) string { return fmt.Sprintf(chargedIntent, status, session, more) }
	ours, other := intent("succeeded", n.Session.String(), ""), intent("succeeded", "another", "")
	failing := intent("requires_payment_method", n.Session.String(), `,"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}`)
	none := ok(listedIntents, other)
	for name, c := range map[string]struct {
		replies map[string][]reply
		paid    payment.Paid
		failure string
	}{
		"found":          {map[string][]reply{"GET /v1/payment_intents": {ok(listedIntents, other+","+ours)}}, payment.PaidYes, ""},
		"found declined": {map[string][]reply{"GET /v1/payment_intents": {ok(listedIntents, failing)}}, payment.PaidNever, "insufficient_funds"},
		"made":           {map[string][]reply{"GET /v1/payment_intents": {none}, "POST /v1/payment_intents": {ok("%s", ours)}}, payment.PaidYes, ""},
		"in progress": {map[string][]reply{
			"GET /v1/payment_intents": {none}, "POST /v1/payment_intents": {ok("%s", intent("processing", n.Session.String(), ""))},
		}, payment.PaidLater, ""},
		"declined": {map[string][]reply{
			"GET /v1/payment_intents": {none}, "POST /v1/payment_intents": {{http.StatusPaymentRequired, fmt.Sprintf(declinedNow, "card_declined", "generic_decline", intent("requires_payment_method", n.Session.String(), ""))}},
		}, payment.PaidNever, "generic_decline"},
		"authentication": {map[string][]reply{
			"GET /v1/payment_intents": {none}, "POST /v1/payment_intents": {{http.StatusPaymentRequired, fmt.Sprintf(declinedNow, "authentication_required", "authentication_required", intent("requires_payment_method", n.Session.String(), ""))}},
		}, payment.PaidNever, payment.FailureAuthentication},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, client := serve(t, c.replies)
			got, err := client.Charge(t.Context(), n)
			if err != nil || got.ID != "pi_1" || got.Mode != payment.ModeCharge || got.Session != n.Session.String() || got.Customer != "cus_1" || got.Currency != "EUR" ||
				got.Stage != payment.StageComplete || got.Paid != c.paid || got.Failure != c.failure || c.paid == payment.PaidYes && got.Amount != 5000 {
				t.Errorf("%+v, %v", got, err)
			}
			last := a.requests[len(a.requests)-1]
			if last.method != http.MethodPost {
				return
			}
			for name, want := range map[string]string{
				"customer": "cus_1", "payment_method": "pm_1", "amount": "5000", "currency": "eur", "off_session": "true", "confirm": "true", "error_on_requires_action": "true",
				"metadata[gpuaas_session]": n.Session.String(),
			} {
				if got := last.form.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
	// A search creates nothing.
	a, client := serve(t, map[string][]reply{"GET /v1/payment_intents": {none}})
	search := n
	search.Method = ""
	if _, err := client.Charge(t.Context(), search); !errors.Is(err, payment.ErrUnknown) || len(a.requests) != 1 || a.requests[0].form.Get("created[gte]") != "1699913600" {
		t.Errorf("%v after %+v", err, a.requests)
	}
	// The key is that of the tenant, the month and the number, whatever the session is.
	keys := map[string]int{}
	for _, change := range []func(*payment.NewCharge){
		func(*payment.NewCharge) {}, func(c *payment.NewCharge) { c.Session = ids.New[ids.PaymentSession]() }, func(c *payment.NewCharge) { c.Number = 4 },
		func(c *payment.NewCharge) { c.Month = "2026-02" }, func(c *payment.NewCharge) { c.Tenant = ids.New[ids.Tenant]() },
	} {
		changed := n
		change(&changed)
		a, client := serve(t, map[string][]reply{"GET /v1/payment_intents": {none}, "POST /v1/payment_intents": {ok("%s", ours)}})
		if _, err := client.Charge(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		keys[a.requests[1].header.Get("Idempotency-Key")]++
	}
	if len(keys) != 4 || keys[""] != 0 {
		t.Errorf("keys %v", keys)
	}
}

// A page that stores a card names the mandate, and its payment method is read from the setup.
func TestSetupReportsTheStoredMethod(t *testing.T) {
	t.Parallel()
	id := ids.New[ids.Mandate]()
	const page = `{"id":"cs_1","object":"checkout.session","mode":"setup","client_reference_id":%q,"metadata":{"gpuaas_mandate":%q},"customer":"cus_1","status":%q,"setup_intent":"seti_1"}`
	for status, want := range map[string]string{"succeeded": "pm_1", "requires_payment_method": ""} {
		a, c := serve(t, map[string][]reply{
			"POST /v1/checkout/sessions":     {ok(page, id, id, "open")},
			"GET /v1/checkout/sessions/cs_1": {ok(page, id, id, "complete")},
			"GET /v1/setup_intents/seti_1":   {ok(`{"id":"seti_1","object":"setup_intent","status":%q,"payment_method":"pm_1"}`, status)},
		})
		opened, err := c.OpenSetup(t.Context(), payment.NewSetup{Mandate: id, Tenant: ids.New[ids.Tenant](), Customer: "cus_1", Currency: "EUR", SuccessURL: "https://x/", ExpiresAt: time.Unix(1700000000, 0)})
		if err != nil || opened.ID != "cs_1" || opened.Mode != payment.ModeSetup {
			t.Fatalf("opened %+v, %v", opened, err)
		}
		if f := a.requests[0].form; f.Get("mode") != "setup" || f.Get("payment_method_types[0]") != "card" || f.Get("metadata[gpuaas_mandate]") != id.String() || f.Get("customer") != "cus_1" {
			t.Errorf("called with %v", f)
		}
		got, err := c.Checkout(t.Context(), "cs_1")
		if err != nil || got.Method != want || got.Mandate != id.String() || got.Reference != id.String() || got.Customer != "cus_1" {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}
