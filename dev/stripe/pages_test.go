package stripe_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
)

func cardForm(number string) string {
	return url.Values{"number": {number}, "expiry": {"12/49"}, "cvc": {"123"}}.Encode()
}

func pathOf(t *testing.T, address string) string {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return at.Path
}

// The page shows the error of a bank or a card at its field, and the API returns it.
func TestCardsThatAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	for name, c := range map[string]struct {
		number, says string
		decline      stripe.DeclineCode
	}{
		"declined":     {"4000 0000 0000 0002", "Your card was declined.", "generic_decline"},
		"no funds":     {"4000000000009995", "insufficient funds", "insufficient_funds"},
		"no test card": {"4111111111111111", "test cards only", "test_mode_live_card"},
		"no number":    {"", "test cards only", "test_mode_live_card"},
		"no digits":    {"4242x4242424242\n<b>", "test cards only", "test_mode_live_card"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := b.page(t)
			answer, body := b.send(t, http.MethodPost, pathOf(t, s.URL), cardForm(c.number), nil)
			if answer.StatusCode != http.StatusPaymentRequired || !strings.Contains(body, c.says) || !strings.Contains(body, `role="alert"`) || strings.Count(body, `aria-invalid="true"`) != 1 {
				t.Errorf("%d %s, want %q", answer.StatusCode, body, c.says)
			}
			got := b.session(t, s.ID)
			if got.Status != stripe.CheckoutSessionStatusOpen {
				t.Errorf("%+v", got)
			}
			i := b.intent(t, got.PaymentIntent.ID)
			if no := i.LastPaymentError; i.Status != stripe.PaymentIntentStatusRequiresPaymentMethod || no.Type != stripe.ErrorTypeCard || no.Code != stripe.ErrorCodeCardDeclined || no.DeclineCode != c.decline {
				t.Errorf("%+v", i.LastPaymentError)
			}
		})
	}
}

// After a declined card, the page accepts another card for the same intent.
func TestAnotherCardPays(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.page(t)
	_, err := control.Pay(t.Context(), s.URL, "4000000000009995")
	if declined, ok := errors.AsType[*control.DeclinedError](err); !ok || !strings.Contains(declined.Message, "insufficient funds") {
		t.Fatal(err)
	}
	before := b.session(t, s.ID).PaymentIntent.ID
	if _, err := control.Pay(t.Context(), s.URL, "5555 5555 5555 4444"); err != nil {
		t.Fatal(err)
	}
	after := b.session(t, s.ID)
	if after.PaymentIntent.ID != before || after.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid {
		t.Errorf("%+v", after)
	}
	if i := b.intent(t, before); i.LastPaymentError != nil || i.AmountReceived != 2500 {
		t.Errorf("%+v", i)
	}
}

// Two forms of one page at once are one payment, and both browsers are led on.
func TestAPageIsPaidOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.page(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			answer, body := b.send(t, http.MethodPost, pathOf(t, s.URL), cardForm(devstripe.CardPaid), nil)
			if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "http://127.0.0.1:8080/paid?session="+s.ID {
				t.Errorf("%d %s", answer.StatusCode, body)
			}
		})
	}
	all.Wait()
	if st, err := b.Status(); err != nil || st.Charges != 1 {
		t.Errorf("%d charges, %v", st.Charges, err)
	}
	if events := b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted); len(events) != 1 {
		t.Errorf("%v", typesOf(events))
	}
}

func TestThePageShowsWhatIsPaidAndLeadsBack(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.page(t, func(p *stripe.CheckoutSessionParams) {
		p.LineItems[0].PriceData.ProductData.Name = new(`Balance of <script>alert("x")</script>`)
	})
	answer, body := b.send(t, http.MethodGet, pathOf(t, s.URL), "", nil)
	for _, want := range []string{
		"EUR 25.00", "no money moves", `href="http://127.0.0.1:8080/billing"`, `<label for="number">`, `<label for="expiry">`, `<label for="cvc">`,
		`autocomplete="cc-number"`, `<html lang="en">`, "&lt;script&gt;",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self' http://127.0.0.1:8080"} {
		if !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Referrer-Policy") != "no-referrer" || strings.Contains(body, "<script") {
		t.Errorf("%d %v %s", answer.StatusCode, answer.Header, body)
	}
	if style, _ := b.send(t, http.MethodGet, "/style.css", "", nil); style.StatusCode != http.StatusOK {
		t.Errorf("no style: %d", style.StatusCode)
	}
}

// An expired page displays its state and accepts no card.
func TestPagesThatAreOver(t *testing.T) {
	t.Parallel()
	m := &moved{}
	b := setup(t, devstripe.Config{Clock: m.clock()})
	done, later, old := b.page(t), b.page(t), b.page(t, func(p *stripe.CheckoutSessionParams) {
		p.ExpiresAt = new(time.Now().Add(31 * time.Minute).Unix())
	})
	for s, number := range map[*stripe.CheckoutSession]string{done: devstripe.CardPaid, later: devstripe.CardLaterFails} {
		if _, err := control.Pay(t.Context(), s.URL, number); err != nil {
			t.Fatal(err)
		}
	}
	m.wait(40 * time.Minute)
	for name, c := range map[string]struct {
		url            string
		asked, sent    int
		says, leadsTo  string
		status, paying string
	}{
		"paid":    {done.URL, 200, 303, "This is paid: EUR 25.00.", "/paid?session=" + done.ID, "complete", "paid"},
		"later":   {later.URL, 200, 303, "in progress", "/paid?session=" + later.ID, "complete", "unpaid"},
		"expired": {old.URL, 410, 410, "expired", "/billing", "expired", "unpaid"},
		"unknown": {b.URL + "/c/pay/cs_test_none", 404, 404, "no such payment", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, body := b.send(t, http.MethodGet, pathOf(t, c.url), "", nil)
			if answer.StatusCode != c.asked || !strings.Contains(body, c.says) || !strings.Contains(body, c.leadsTo) || strings.Contains(body, "<form") {
				t.Errorf("%d %s, want %d %q", answer.StatusCode, body, c.asked, c.says)
			}
			if answer, _ := b.send(t, http.MethodPost, pathOf(t, c.url), cardForm(devstripe.CardPaid), nil); answer.StatusCode != c.sent {
				t.Errorf("a form was answered %d, want %d", answer.StatusCode, c.sent)
			}
			if _, err := control.Pay(t.Context(), c.url, devstripe.CardPaid); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if c.status == "" {
				return
			}
			id := c.url[strings.LastIndex(c.url, "/")+1:]
			if got := b.session(t, id); string(got.Status) != c.status || string(got.PaymentStatus) != c.paying {
				t.Errorf("%s %s, want %s %s", got.Status, got.PaymentStatus, c.status, c.paying)
			}
		})
	}
}

// A page of another site can neither submit the form for a visitor nor choose the address after the
// payment.
func TestFormsOfOtherPlaces(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.page(t)
	for name, header := range map[string]map[string]string{
		"of another site":   {"Sec-Fetch-Site": "cross-site"},
		"of another origin": {"Origin": "http://evil.example"},
	} {
		if answer, _ := b.send(t, http.MethodPost, pathOf(t, s.URL), cardForm(devstripe.CardPaid), header); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
	if got := b.session(t, s.ID); got.Status != stripe.CheckoutSessionStatusOpen {
		t.Errorf("%+v", got)
	}
	form := cardForm(devstripe.CardPaid) + "&success_url=http://evil.example&next=http://evil.example"
	answer, _ := b.send(t, http.MethodPost, pathOf(t, s.URL)+"?success_url=http://evil.example", form, nil)
	if to := answer.Header.Get("Location"); to != "http://127.0.0.1:8080/paid?session="+s.ID {
		t.Errorf("led to %s", to)
	}
}

// A slow payment: the page is complete, and the payment succeeds or fails later.
func TestPaymentsThatTakeTheirTime(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]struct {
		event   stripe.EventType
		payment stripe.CheckoutSessionPaymentStatus
		intent  stripe.PaymentIntentStatus
	}{
		devstripe.CardLater:      {stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded, "paid", "succeeded"},
		devstripe.CardLaterFails: {stripe.EventTypeCheckoutSessionAsyncPaymentFailed, "unpaid", "requires_payment_method"},
	} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			m := &moved{}
			b := setup(t, devstripe.Config{Clock: m.clock(), CompleteAfter: time.Minute})
			s := b.paid(t, number)
			i := b.intent(t, s.PaymentIntent.ID)
			if s.Status != "complete" || s.PaymentStatus != "unpaid" || i.Status != "processing" {
				t.Errorf("%+v %+v", s, i)
			}
			_, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &i.ID})
			wantError(t, err, 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodePaymentIntentUnexpectedState, "payment_intent")
			m.wait(2 * time.Minute)
			s, i = b.session(t, s.ID), b.intent(t, i.ID)
			if s.PaymentStatus != want.payment || i.Status != want.intent {
				t.Errorf("%+v %+v", s, i)
			}
			events := b.hook.until(t, stripe.EventTypeCheckoutSessionCompleted, want.event)
			if events[0].GetObjectValue("payment_status") != "unpaid" || events[1].GetObjectValue("payment_status") != string(want.payment) {
				t.Errorf("%+v", events)
			}
		})
	}
}

// A cardholder may dispute a payment after it was credited.
func TestPaymentsThatAreDisputed(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, "4000000000000259")
	i := b.intent(t, s.PaymentIntent.ID)
	if s.PaymentStatus != "paid" {
		t.Errorf("%+v", s)
	}
	e := b.hook.until(t, completed, stripe.EventTypeChargeDisputeCreated)[1]
	if e.GetObjectValue("payment_intent") != i.ID || e.GetObjectValue("amount") != "2500" || e.GetObjectValue("object") != "dispute" {
		t.Errorf("%+v", e.Data.Object)
	}
}
