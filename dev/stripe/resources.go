package stripe

import (
	"net/http"
	"strings"
	"time"
)

func (c *call) createCustomer() (object, *refusal) {
	tags, no := c.metadata("")
	if no != nil {
		return nil, no
	}
	r := c.state.customers.put(&customer{
		ID: named("cus_"), Created: c.now.Unix(), Name: c.form.Get("name"), Email: c.form.Get("email"),
		Description: c.form.Get("description"), Phone: c.form.Get("phone"), Metadata: tags,
	})
	c.emit("customer.created", r.show(), nil, c.now)
	return r.show(), nil
}

func (c *call) getCustomer() (object, *refusal) {
	r, ok := c.state.customers.get(c.id)
	if !ok {
		return nil, missing("id", "customer", c.id)
	}
	return r.show(), nil
}

// sessionParams are what a page for one payment can be asked with.
var sessionParams = []string{
	"mode", "ui_mode", "success_url", "cancel_url", "expires_at", "customer", "customer_email", "client_reference_id", "locale", "submit_type",
	"metadata[*]", "payment_method_types[]", "payment_intent_data[metadata][*]", "payment_intent_data[description]",
	"line_items[][quantity]", "line_items[][price_data][currency]", "line_items[][price_data][unit_amount]",
	"line_items[][price_data][product_data][name]", "line_items[][price_data][product_data][description]",
}

const (
	// As the API has it: a page is open for half an hour to a day, a day by itself.
	shortest, longest = 30 * time.Minute, 24 * time.Hour
	// What the API takes in most currencies of two decimals.
	smallest, largest = 50, 99999999
	maxReference      = 200
)

func (c *call) createSession() (object, *refusal) {
	r := &session{
		ID: named("cs_test_a1") + strings.ToLower(named("")), Created: c.now.Unix(), ExpiresAt: c.now.Add(longest).Unix(),
		Customer: c.form.Get("customer"), Email: c.form.Get("customer_email"), Reference: c.form.Get("client_reference_id"),
		SuccessURL: c.form.Get("success_url"), CancelURL: c.form.Get("cancel_url"), Locale: c.form.Get("locale"), SubmitType: c.form.Get("submit_type"),
		IntentText: c.form.Get("payment_intent_data[description]"), Status: open, PaymentStatus: unpaid,
	}
	var no *refusal
	if r.Metadata, no = c.metadata(""); no != nil {
		return nil, no
	}
	if r.IntentMetadata, no = c.metadata("payment_intent_data"); no != nil {
		return nil, no
	}
	if no := first(c.checkMode(), c.address("success_url", true), c.address("cancel_url", false), c.checkPayer(r), c.expiry(r), c.items(r)); no != nil {
		return nil, no
	}
	c.state.sessions.put(r)
	return c.showSession(r), nil
}

func (c *call) checkMode() *refusal {
	if c.form.Get("mode") == "" {
		return invalid("mode", "parameter_missing", "Missing required param: mode.")
	}
	return first(c.among("mode", "payment"), c.among("ui_mode", "hosted"), c.among("payment_method_types[0]", "card"), c.among("submit_type", "auto", "pay"))
}

func (c *call) checkPayer(r *session) *refusal {
	_, known := c.state.customers.get(r.Customer)
	switch {
	case r.Customer != "" && !known:
		// The API says so with 400 here, unlike where the id is in the path.
		no := missing("customer", "customer", r.Customer)
		no.Status = http.StatusBadRequest
		return no
	case r.Customer != "" && r.Email != "":
		return invalid("customer_email", "", "You may only specify one of these parameters: customer, customer_email.")
	case len(r.Reference) > maxReference:
		return invalid("client_reference_id", "", "client_reference_id has up to 200 characters.")
	}
	return nil
}

func (c *call) expiry(r *session) *refusal {
	if c.form.Get("expires_at") == "" {
		return nil
	}
	at, no := c.whole("expires_at")
	if no != nil {
		return no
	}
	// A clock's second of difference is nobody's fault.
	if from := time.Unix(at, 0).Sub(c.now); from < shortest-time.Second || from > longest {
		return invalid("expires_at", "", "The page must end at least 30 minutes and at most 24 hours from now.")
	}
	r.ExpiresAt = at
	return nil
}

// items adds up what is bought. All of it has one currency.
func (c *call) items(r *session) *refusal {
	for n := range 100 {
		at := "line_items[" + itoa(n) + "]"
		currency := strings.ToLower(c.form.Get(at + "[price_data][currency]"))
		if currency == "" {
			break
		}
		quantity, no := c.whole(at + "[quantity]")
		if no != nil {
			return no
		}
		unit, no := c.whole(at + "[price_data][unit_amount]")
		if no != nil {
			return no
		}
		name := c.form.Get(at + "[price_data][product_data][name]")
		switch {
		case name == "":
			return invalid(at+"[price_data][product_data][name]", "parameter_missing", "Missing required param: "+at+"[price_data][product_data][name].")
		case len(currency) != 3 || r.Currency != "" && r.Currency != currency:
			return invalid(at+"[price_data][currency]", "", "Invalid currency: "+currency)
		case unit > largest || quantity > largest/unit || r.Amount+unit*quantity > largest:
			return invalid(at+"[price_data][unit_amount]", "amount_too_large", "The amount must be no more than 999,999.99.")
		}
		r.Currency, r.Amount = currency, r.Amount+unit*quantity
		if r.Title == "" {
			r.Title = name
		}
	}
	switch {
	case r.Currency == "":
		return invalid("line_items", "parameter_missing", "Missing required param: line_items.")
	case r.Amount < smallest:
		return invalid("line_items", "amount_too_small", "The amount must be at least 0.50.")
	}
	return nil
}

func (c *call) getSession() (object, *refusal) {
	r, ok := c.state.sessions.get(c.id)
	if !ok {
		return nil, missing("session", "checkout.session", c.id)
	}
	return c.showSession(r), nil
}

func (c *call) expireSession() (object, *refusal) {
	r, ok := c.state.sessions.get(c.id)
	switch {
	case !ok:
		return nil, missing("session", "checkout.session", c.id)
	case r.Status != open:
		return nil, invalid("", "", "Only a session that is open can be expired; this one is "+r.Status+".")
	}
	c.expire(r, c.now)
	return c.showSession(r), nil
}

func (c *call) getIntent() (object, *refusal) {
	r, ok := c.state.intents.get(c.id)
	if !ok {
		return nil, missing("intent", "payment_intent", c.id)
	}
	return c.showIntent(r), nil
}

func (c *call) getCharge() (object, *refusal) {
	r, ok := c.state.charges.get(c.id)
	if !ok {
		return nil, missing("id", "charge", c.id)
	}
	return r.show(), nil
}

func (c *call) createPortal() (object, *refusal) {
	who := c.form.Get("customer")
	_, known := c.state.customers.get(who)
	switch {
	case who == "":
		return nil, invalid("customer", "parameter_missing", "Missing required param: customer.")
	case !known:
		no := missing("customer", "customer", who)
		no.Status = http.StatusBadRequest
		return nil, no
	}
	if no := c.address("return_url", false); no != nil {
		return nil, no
	}
	r := c.state.portals.put(&portal{
		ID: named("bps_1"), Secret: named("test_"), Created: c.now.Unix(), Customer: who, ReturnURL: c.form.Get("return_url"), Locale: c.form.Get("locale"),
	})
	shown := c.showPortal(r)
	c.emit("billing_portal.session.created", shown, nil, c.now)
	return shown, nil
}

func (c *call) listEvents() (object, *refusal) {
	types := map[string]bool{}
	for name, values := range c.form {
		if name == "type" || strings.HasPrefix(name, "types[") {
			for _, t := range values {
				types[t] = true
			}
		}
	}
	return listed(c, "/v1/events", c.state.events.rows, func(e *event) int64 { return e.Created },
		func(e *event) bool { return len(types) == 0 || types[e.Type] }, c.showEvent)
}

func (c *call) getEvent() (object, *refusal) {
	r, ok := c.state.events.get(c.id)
	if !ok {
		return nil, missing("id", "event", c.id)
	}
	return c.showEvent(r), nil
}
