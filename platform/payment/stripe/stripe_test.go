package stripe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
)

// received is a request as it reached the API.
type received struct {
	method, path string
	header       http.Header
	form         url.Values
}

// api answers by path, in turn, with what Stripe's reference shows.
type api struct {
	*httptest.Server

	requests []received
}

type reply struct {
	status int
	body   string
}

func serve(t *testing.T, replies map[string][]reply) (*api, *stripe.Client) {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body) + "&" + r.URL.RawQuery)
		a.requests = append(a.requests, received{r.Method, r.URL.Path, r.Header, form})
		key := r.Method + " " + r.URL.Path
		if len(replies[key]) == 0 {
			t.Errorf("unexpected %s", key)
			return
		}
		next := replies[key][0]
		replies[key] = replies[key][1:]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(next.status)
		_, _ = io.WriteString(w, next.body)
	}))
	t.Cleanup(a.Close)
	c, err := stripe.New(stripe.Config{Key: "sk_test_key", WebhookSecret: "whsec_x", URL: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

const (
	unpaid = `{"id":"cs_1","object":"checkout.session","amount_total":2500,"currency":"eur","customer":"cus_1","client_reference_id":"ref","livemode":false,
		"payment_intent":"pi_1","payment_status":"unpaid","status":"complete","expires_at":1700000000,"url":null}`
	intent = `{"id":"pi_1","object":"payment_intent","status":%q}`
	made   = `{"id":"re_1","object":"refund","amount":100,"currency":"eur","status":%q,"payment_intent":"pi_1","metadata":{"gpuaas_refund":%q}}`
	listed = `{"object":"list","url":"/v1/refunds","has_more":%t,"data":[%s]}`
)

func ok(format string, args ...any) reply { return reply{http.StatusOK, fmt.Sprintf(format, args...)} }

// Every change carries an id of ours as its key, in the one version that we speak.
func TestRequests(t *testing.T) {
	t.Parallel()
	id, tenant := ids.New[ids.PaymentSession](), ids.New[ids.Tenant]()
	a, c := serve(t, map[string][]reply{
		"POST /v1/customers":         {ok(`{"id":"cus_1","object":"customer"}`), ok(`{"id":"cus_1","object":"customer"}`)},
		"POST /v1/checkout/sessions": {ok(`{"id":"cs_1","object":"checkout.session","status":"open","url":"https://checkout.stripe.example/cs_1","expires_at":1700000000}`)},
	})
	for range 2 {
		if customer, err := c.CreateCustomer(t.Context(), payment.NewCustomer{Tenant: tenant, Name: "Acme"}); err != nil || customer != "cus_1" {
			t.Fatalf("customer %q, %v", customer, err)
		}
	}
	opened, err := c.OpenCheckout(t.Context(), payment.NewCheckout{
		Session: id, Tenant: tenant, Customer: "cus_1", Amount: 2500, Currency: "EUR", SuccessURL: "https://x/a", CancelURL: "https://x/b", ExpiresAt: time.Unix(1700000000, 0),
	})
	if err != nil || opened.URL != "https://checkout.stripe.example/cs_1" || opened.Stage != payment.StageOpen || opened.ExpiresAt.Unix() != 1700000000 {
		t.Fatalf("opened %+v, %v", opened, err)
	}
	for name, want := range map[string]string{
		"mode": "payment", "customer": "cus_1", "client_reference_id": id.String(), "line_items[0][quantity]": "1",
		"line_items[0][price_data][currency]": "eur", "line_items[0][price_data][unit_amount]": "2500", "expires_at": "1700000000",
		"metadata[gpuaas_session]": id.String(), "payment_intent_data[metadata][gpuaas_session]": id.String(), "success_url": "https://x/a", "cancel_url": "https://x/b",
	} {
		if got := a.requests[2].form.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	keys := map[string]int{}
	for _, q := range a.requests {
		keys[q.header.Get("Idempotency-Key")]++
		if q.header.Get("Stripe-Version") != "2023-10-16" || q.header.Get("Authorization") != "Bearer sk_test_key" || q.header.Get("X-Stripe-Client-User-Agent") != "" {
			t.Errorf("%s %s came with %v", q.method, q.path, q.header)
		}
	}
	if len(keys) != 2 || keys[""] != 0 {
		t.Errorf("idempotency keys %v", keys)
	}
}

// The payment of a checkout with pending money contains the result.
func TestCheckoutWhoseMoneyWasToCome(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]payment.Paid{
		"processing": payment.PaidLater, "requires_payment_method": payment.PaidNever, "canceled": payment.PaidNever,
	} {
		_, c := serve(t, map[string][]reply{"GET /v1/checkout/sessions/cs_1": {ok(unpaid)}, "GET /v1/payment_intents/pi_1": {ok(intent, status)}})
		got, err := c.Checkout(t.Context(), "cs_1")
		if err != nil || got.Paid != want || got.Amount != 2500 || got.Currency != "EUR" || got.Customer != "cus_1" || got.Payment != "pi_1" || got.Reference != "ref" {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}

// Refund searches for an existing refund first, because the first response may be lost.
func TestRefundReadsBeforeItRequests(t *testing.T) {
	t.Parallel()
	r := payment.NewRefund{ID: ids.New[ids.Refund](), Payment: "pi_1", Amount: 100}
	other, ours := fmt.Sprintf(made, "succeeded", "another"), fmt.Sprintf(made, "succeeded", r.ID)
	for name, replies := range map[string]map[string][]reply{
		"found":                {"GET /v1/refunds": {ok(listed, false, ours)}},
		"found on a next page": {"GET /v1/refunds": {ok(listed, true, other), ok(listed, false, ours)}},
		"made":                 {"GET /v1/refunds": {ok(listed, false, other)}, "POST /v1/refunds": {ok("%s", ours)}},
	} {
		a, c := serve(t, replies)
		got, err := c.Refund(t.Context(), r)
		if err != nil || got.ID != "re_1" || got.Stage != payment.RefundSucceeded || got.Reference != r.ID.String() || got.Amount != 100 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if last := a.requests[len(a.requests)-1]; last.method == http.MethodPost && (last.header.Get("Idempotency-Key") == "" || last.form.Get("amount") != "100") {
			t.Errorf("%s: called with %+v", name, last)
		}
	}
	for status, want := range map[string]payment.RefundStage{
		"pending": payment.RefundPending, "requires_action": payment.RefundPending, "succeeded": payment.RefundSucceeded,
		"failed": payment.RefundFailed, "canceled": payment.RefundFailed, "of tomorrow": payment.RefundPending,
	} {
		_, c := serve(t, map[string][]reply{"GET /v1/refunds/re_1": {ok(made, status, r.ID)}})
		again := r
		again.ProviderID = "re_1"
		if got, err := c.Refund(t.Context(), again); err != nil || got.Stage != want || (want == payment.RefundFailed) != (got.Failure != "") {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}

// Permanent errors differ from temporary ones: only the permanent ones end a session or a refund.
func TestFailures(t *testing.T) {
	t.Parallel()
	const refusal = `{"error":{"type":%q,"code":%q,"message":"Because."}}`
	for name, c := range map[string]struct {
		reply reply
		want  error
	}{
		"refused":             {reply{400, fmt.Sprintf(refusal, "invalid_request_error", "charge_already_refunded")}, payment.ErrRejected},
		"unknown":             {reply{404, fmt.Sprintf(refusal, "invalid_request_error", "resource_missing")}, payment.ErrUnknown},
		"card":                {reply{402, fmt.Sprintf(refusal, "card_error", "card_declined")}, payment.ErrRejected},
		"wrong key":           {reply{401, fmt.Sprintf(refusal, "invalid_request_error", "")}, errs.New(errs.ProviderFailed, "")},
		"key without a right": {reply{403, fmt.Sprintf(refusal, "invalid_request_error", "")}, errs.New(errs.ProviderFailed, "")},
		"key with other body": {reply{400, fmt.Sprintf(refusal, "idempotency_error", "")}, errs.New(errs.ProviderFailed, "")},
		"too much":            {reply{429, fmt.Sprintf(refusal, "invalid_request_error", "rate_limit")}, errs.New(errs.ProviderFailed, "")},
		"broken":              {reply{500, fmt.Sprintf(refusal, "api_error", "")}, errs.New(errs.ProviderFailed, "")},
		"a proxy's page":      {reply{502, "<html>"}, errs.New(errs.ProviderFailed, "")},
		"cut off":             {reply{200, `{"id":`}, errs.New(errs.ProviderFailed, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := serve(t, map[string][]reply{"POST /v1/billing_portal/sessions": {c.reply, c.reply}})
			_, err := client.OpenPortal(t.Context(), "cus_1", "https://x")
			if !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if errs.CodeOf(err) == errs.ProviderFailed && strings.Contains(fmt.Sprint(errors.Unwrap(err)), "sk_test") {
				t.Errorf("it contains the key: %v", err)
			}
		})
	}
	_, client := serve(t, nil)
	gone, err := stripe.New(stripe.Config{Key: "sk_test_key", WebhookSecret: "whsec_x", URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.OpenPortal(t.Context(), "cus_1", "https://x"); errs.CodeOf(err) != errs.ProviderFailed {
		t.Errorf("no server: %v", err)
	}
	if client.Livemode() {
		t.Error("a test key moves real money")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for key, live := range map[string]bool{"sk_live_x": true, "rk_live_x": true, "sk_test_x": false, "rk_test_x": false} {
		if got, err := stripe.Live(key); err != nil || got != live {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	for _, c := range []stripe.Config{{Key: "pk_live_x", WebhookSecret: "w"}, {Key: "", WebhookSecret: "w"}, {Key: "sk_test_x"}} {
		if _, err := stripe.New(c); err == nil || strings.Contains(err.Error(), "_x") && c.Key != "" && strings.Contains(err.Error(), c.Key) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The list is read to its end, and each event is stored unchanged.
func TestEventsArePaged(t *testing.T) {
	t.Parallel()
	page := func(more bool, names ...string) reply {
		events := []json.RawMessage{}
		for _, n := range names {
			events = append(events, json.RawMessage(`{"id":"`+n+`","object":"event","type":"checkout.session.completed","api_version":"2023-10-16","created":1700000000,"data":{"object":`+unpaid+`}}`))
		}
		body, _ := json.Marshal(map[string]any{"object": "list", "has_more": more, "data": events, "url": "/v1/events"})
		return reply{http.StatusOK, string(body)}
	}
	a, c := serve(t, map[string][]reply{"GET /v1/events": {page(true, "evt_3", "evt_2"), page(false, "evt_1")}})
	var got []string
	err := c.Events(t.Context(), time.Unix(1600000000, 0), func(events []payment.Event) error {
		for _, e := range events {
			got = append(got, e.ID)
			if e.Payload.Checkout == nil || e.Payload.Checkout.Amount != 2500 || e.Object != "cs_1" || !json.Valid(e.Body) {
				t.Errorf("event %+v", e)
			}
		}
		return nil
	})
	if err != nil || strings.Join(got, " ") != "evt_3 evt_2 evt_1" {
		t.Errorf("read %v, %v", got, err)
	}
	if first, second := a.requests[0].form, a.requests[1].form; first.Get("created[gte]") != "1600000000" || first.Get("types[0]") == "" || second.Get("starting_after") != "evt_2" {
		t.Errorf("called with %v, then %v", first, second)
	}
}
