package stripe

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/gpuaas/gpuaas/internal/money"
)

// methods are the methods that platform/payment/stripe calls. Lists have one page, which Stripe may
// return, too; the adapter's own tests cover more pages.
var methods = map[string]method{
	"POST /v1/customers":               (*call).createCustomer,
	"POST /v1/checkout/sessions":       (*call).createSession,
	"GET /v1/checkout/sessions/{id}":   get("session"),
	"POST /v1/payment_intents":         (*call).createIntent,
	"GET /v1/payment_intents":          (*call).listIntents,
	"GET /v1/payment_intents/{id}":     get("intent"),
	"GET /v1/setup_intents/{id}":       get("setup intent"),
	"POST /v1/billing_portal/sessions": (*call).createPortal,
	"POST /v1/refunds":                 (*call).createRefund,
	"GET /v1/refunds":                  (*call).listRefunds,
	"GET /v1/refunds/{id}":             get("refund"),
	"GET /v1/disputes/{id}":            get("dispute"),
	"GET /v1/events":                   (*call).listEvents,
}

const (
	shortest, longest = 30 * time.Minute, 24 * time.Hour // lifetime of a session, as at Stripe
	smallest          = 50                               // as at Stripe, in most currencies
)

func (c *call) createCustomer() (json.RawMessage, *stripego.Error) {
	customer := &stripego.Customer{ID: newID("cus_"), Object: "customer", Created: c.now.Unix(), Name: c.form.Get("name"), Metadata: c.metadata("metadata[")}
	c.state.Customers[customer.ID] = customer
	return encode(customer), nil
}

// metadata returns the parameters that start with prefix.
func (c *call) metadata(prefix string) map[string]string {
	values := map[string]string{}
	for name := range c.form {
		if key, ok := strings.CutPrefix(name, prefix); ok {
			values[strings.TrimSuffix(key, "]")] = c.form.Get(name)
		}
	}
	return values
}

// number reads a parameter that is at least 1. It returns otherwise if the parameter is missing.
func (c *call) number(name string, otherwise int64) (int64, *stripego.Error) {
	if c.form.Get(name) == "" && otherwise > 0 {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(c.form.Get(name), 10, 64)
	if err != nil || n < 1 {
		return 0, invalid(name, stripego.ErrorCodeParameterInvalidInteger, "Invalid integer: "+c.form.Get(name))
	}
	return n, nil
}

func (c *call) createSession() (json.RawMessage, *stripego.Error) {
	const item = "line_items[0][price_data]"
	customer := c.state.Customers[c.form.Get("customer")]
	if c.form.Get("mode") == string(stripego.CheckoutSessionModeSetup) {
		c.form.Set(item+"[unit_amount]", "100") // not charged
		c.form.Set("line_items[0][quantity]", "1")
	}
	amount, failure := c.number(item+"[unit_amount]", 0)
	if failure != nil {
		return nil, failure
	}
	expires, failure := c.number("expires_at", c.now.Add(longest).Unix())
	if failure != nil {
		return nil, failure
	}
	// The clocks of the client and the double may differ by a second.
	lifetime := time.Unix(expires, 0).Sub(c.now)
	switch {
	case c.form.Get("mode") != "payment" && c.form.Get("mode") != "setup":
		return nil, invalid("mode", "", "Invalid mode: must be payment or setup")
	case c.form.Get("success_url") == "":
		return nil, invalid("success_url", stripego.ErrorCodeParameterMissing, "Missing required param: success_url.")
	case customer == nil && c.form.Get("customer") != "":
		return nil, unknown("customer", c.form.Get("customer"))
	case lifetime < shortest-time.Second || lifetime > longest:
		return nil, invalid("expires_at", "", "The session must expire at least 30 minutes and at most 24 hours from now.")
	case c.form.Get("line_items[0][quantity]") != "1" || c.form.Has("line_items[1][quantity]"):
		return nil, invalid("line_items", "", "The payment double sells one item only.")
	case amount < smallest:
		return nil, invalid("line_items", stripego.ErrorCodeAmountTooSmall, "The amount must be at least 0.50.")
	}
	id := newID("cs_test_a1")
	p := &payment{
		Title: c.form.Get(item + "[product_data][name]"), Metadata: c.metadata("payment_intent_data[metadata]["),
		Session: stripego.CheckoutSession{
			ID: id, Object: "checkout.session", Created: c.now.Unix(), ExpiresAt: expires, Mode: stripego.CheckoutSessionModePayment, AmountTotal: amount,
			AmountSubtotal: amount, Currency: stripego.Currency(strings.ToLower(c.form.Get(item + "[currency]"))), Customer: customer,
			ClientReferenceID: c.form.Get("client_reference_id"), SuccessURL: c.form.Get("success_url"), CancelURL: c.form.Get("cancel_url"),
			Metadata: c.metadata("metadata["), Status: stripego.CheckoutSessionStatusOpen, PaymentStatus: stripego.CheckoutSessionPaymentStatusUnpaid,
			URL: c.base + "/c/pay/" + id,
		},
	}
	if p.Session.Mode = stripego.CheckoutSessionMode(c.form.Get("mode")); p.Session.Mode == stripego.CheckoutSessionModeSetup {
		p.Title, p.Session.AmountTotal, p.Session.AmountSubtotal, p.Session.PaymentStatus = "Stored card", 0, 0, stripego.CheckoutSessionPaymentStatusNoPaymentRequired
	}
	c.state.Payments = append(c.state.Payments, p)
	return encode(p.Session), nil
}

// createIntent charges a stored card without its holder.
func (c *call) createIntent() (json.RawMessage, *stripego.Error) {
	customer, stored := c.state.Customers[c.form.Get("customer")], c.stored(c.form.Get("payment_method"))
	amount, failure := c.number("amount", 0)
	switch {
	case failure != nil:
		return nil, failure
	case customer == nil:
		return nil, unknown("customer", c.form.Get("customer"))
	case stored == nil || stored.Session.Customer.ID != customer.ID:
		return nil, unknown("payment_method", c.form.Get("payment_method"))
	case c.form.Get("confirm") != "true" || c.form.Get("off_session") != "true":
		return nil, invalid("confirm", "", "The payment double charges stored cards off session only.")
	}
	p := &payment{Charges: 1, Metadata: c.metadata("metadata["), Intent: &stripego.PaymentIntent{
		ID: newID("pi_3"), Object: "payment_intent", Created: c.now.Unix(), Amount: amount, Currency: stripego.Currency(c.form.Get("currency")),
		Customer: customer, Metadata: c.metadata("metadata["), Status: stripego.PaymentIntentStatusRequiresPaymentMethod,
	}}
	c.state.Payments = append(c.state.Payments, p)
	with := cardOf(stored.Number)
	p.By = with.refunds
	switch {
	case with.absent != "":
		no := &stripego.Error{HTTPStatusCode: http.StatusPaymentRequired, Type: stripego.ErrorTypeCard, Code: with.absent, Msg: declined}
		p.Intent.LastPaymentError = new(*no)
		c.emit("payment_intent.payment_failed", p.Intent, nil, c.now)
		no.PaymentIntent = p.Intent
		return nil, no
	case with.later != "":
		p.Intent.Status, p.Settlement = stripego.PaymentIntentStatusProcessing, settlement{string(with.later), c.now.Add(c.cfg.CompleteAfter)}
	default:
		p.succeed()
		c.emit("payment_intent.succeeded", p.Intent, nil, c.now)
	}
	return encode(p.Intent), nil
}

// stored returns the session that has stored a payment method.
func (c *call) stored(method string) *payment {
	return find(c.state.Payments, func(p *payment) bool { return p.Setup != nil && p.Setup.PaymentMethod.ID == method })
}

func (c *call) listIntents() (json.RawMessage, *stripego.Error) {
	data := []json.RawMessage{}
	for _, p := range slices.Backward(c.state.Payments) {
		if p.Intent != nil && p.Intent.Customer != nil && p.Intent.Customer.ID == c.form.Get("customer") {
			data = append(data, encode(p.Intent))
		}
	}
	return encodeList("/v1/payment_intents", data), nil
}

// get returns the method that reads one resource of a payment.
func get(kind string) method {
	return func(c *call) (json.RawMessage, *stripego.Error) {
		for _, p := range c.state.Payments {
			if found := p.resource(c.id); found != nil {
				return encode(found), nil
			}
		}
		return nil, notFound(kind, c.id)
	}
}

func (c *call) createPortal() (json.RawMessage, *stripego.Error) {
	customer := c.state.Customers[c.form.Get("customer")]
	if customer == nil {
		return nil, unknown("customer", c.form.Get("customer"))
	}
	return encode(stripego.BillingPortalSession{
		ID: newID("bps_1"), Object: "billing_portal.session", Created: c.now.Unix(), Customer: customer.ID, ReturnURL: c.form.Get("return_url"), URL: c.base + "/portal",
	}), nil
}

func (c *call) createRefund() (json.RawMessage, *stripego.Error) {
	id := c.form.Get("payment_intent")
	p := c.paymentOf(id)
	if p == nil {
		return nil, unknown("payment_intent", id)
	}
	left := p.refundable()
	amount, failure := c.number("amount", left)
	switch {
	case p.Intent.Status != stripego.PaymentIntentStatusSucceeded:
		return nil, invalid("payment_intent", stripego.ErrorCodePaymentIntentUnexpectedState, "This PaymentIntent has no successful charge to refund.")
	case left == 0:
		return nil, invalid("", stripego.ErrorCodeChargeAlreadyRefunded, "The charge has already been refunded.")
	case failure != nil:
		return nil, failure
	case amount > left:
		return nil, invalid("amount", "", "The refund is greater than the unrefunded amount of the charge.")
	}
	r := &refund{Refund: stripego.Refund{
		ID: newID("re_3"), Object: "refund", Created: c.now.Unix(), Amount: amount, Currency: p.Intent.Currency, PaymentIntent: &stripego.PaymentIntent{ID: id},
		Reason: stripego.RefundReason(c.form.Get("reason")), Metadata: c.metadata("metadata["), Status: stripego.RefundStatusSucceeded,
	}}
	c.scheduleRefund(p, r)
	p.Refunds = append(p.Refunds, r)
	c.emit("refund.created", r.Refund, nil, c.now)
	return encode(r.Refund), nil
}

// scheduleRefund applies the card or a fault to a new refund.
func (c *call) scheduleRefund(p *payment, r *refund) {
	outcome := p.By
	if fault := c.takeFault(faultRefundPending, faultRefundFailed); fault != "" {
		outcome = fault
	}
	switch outcome {
	case faultRefundPending:
		r.Refund.Status, r.Settlement.Status = stripego.RefundStatusPending, string(stripego.RefundStatusSucceeded)
	case faultRefundFailed:
		r.Settlement.Status = string(stripego.RefundStatusFailed)
	}
	r.Settlement.At = c.now.Add(c.cfg.CompleteAfter)
}

// completeRefund ends a refund. The amount of a failed refund can be refunded again.
func (s *Server) completeRefund(r *refund, now time.Time) {
	before := map[string]any{"status": r.Refund.Status}
	r.Refund.Status, r.Settlement = stripego.RefundStatus(r.Settlement.Status), settlement{}
	if r.Refund.Status == stripego.RefundStatusFailed {
		r.Refund.FailureReason = stripego.RefundFailureReasonLostOrStolenCard
	}
	s.emit("charge.refund.updated", r.Refund, before, now)
	s.emit("refund.updated", r.Refund, before, now)
}

func (c *call) listRefunds() (json.RawMessage, *stripego.Error) {
	data := []json.RawMessage{}
	if p := c.paymentOf(c.form.Get("payment_intent")); p != nil {
		for _, r := range slices.Backward(p.Refunds) {
			data = append(data, encode(r.Refund))
		}
	}
	return encodeList("/v1/refunds", data), nil
}

func (c *call) listEvents() (json.RawMessage, *stripego.Error) {
	var types []string
	for name, values := range c.form {
		if strings.HasPrefix(name, "type") {
			types = append(types, values...)
		}
	}
	since, _ := strconv.ParseInt(c.form.Get("created[gte]"), 10, 64) // 0 includes all events
	data := []json.RawMessage{}
	for _, e := range slices.Backward(c.state.Events) {
		if e.Created >= since && (len(types) == 0 || slices.Contains(types, string(e.Type))) {
			data = append(data, encodeEvent(e))
		}
	}
	return encodeList("/v1/events", data), nil
}

// format returns the amount of a session, or "" for one that stores a card.
func format(s stripego.CheckoutSession) string {
	if s.Mode == stripego.CheckoutSessionModeSetup {
		return ""
	}
	return money.Format(strings.ToUpper(string(s.Currency)), money.Minor(s.AmountTotal))
}
