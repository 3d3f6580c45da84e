package stripe

import (
	"maps"
	"slices"

	stripego "github.com/stripe/stripe-go/v76"
)

const (
	faultWebhookDrop      = "webhook_drop"
	faultWebhookDelay     = "webhook_delay"
	faultWebhookDuplicate = "webhook_duplicate"
	faultWebhookReorder   = "webhook_reorder"
	faultWebhookForged    = "webhook_forged"
	faultWebhookStale     = "webhook_stale"

	faultAPIError  = "api_error"
	faultAPILost   = "api_lost"
	faultAPIStored = "api_kept"

	faultRefundPending = "refund_pending"
	faultRefundFailed  = "refund_failed"
)

// faults maps a fault to its description.
var faults = map[string]string{
	faultWebhookDrop:      "the next webhook is never sent; the API still lists its event",
	faultWebhookDelay:     "the next webhook is sent later",
	faultWebhookDuplicate: "the next webhook is sent twice",
	faultWebhookReorder:   "the next webhook is sent after the one that follows it",
	faultWebhookForged:    "the next webhook is first sent with another secret's signature",
	faultWebhookStale:     "the next webhook is first sent with a signature of five minutes ago",
	"event_amount":        "the next payment's event has another amount",
	"event_currency":      "the next payment's event has another currency",
	"event_customer":      "the next payment's event has another customer",
	"event_reference":     "the next payment's event has another reference of the client",
	"event_livemode":      "the next payment's event is in live mode",
	"event_account":       "the next payment's event is of a connected account",
	"event_version":       "the next payment's event has another version of the API",
	faultAPIError:         "the next call returns 500 without an effect",
	faultAPILost:          "the next call is done and returns 500; a retry with its key returns the result",
	faultAPIStored:        "the next call is done and returns 500, and so do retries with its key",
	faultRefundPending:    "the next refund is pending for some time, then succeeds",
	faultRefundFailed:     "the next refund succeeds, and fails after some time",
}

// corruptions change the event of a payment. The payment itself stays correct for later reads.
var corruptions = map[string]func(*stripego.Event, *stripego.CheckoutSession){
	"event_amount": func(_ *stripego.Event, s *stripego.CheckoutSession) { s.AmountTotal += 100 },
	"event_currency": func(_ *stripego.Event, s *stripego.CheckoutSession) {
		s.Currency = map[bool]stripego.Currency{true: "usd", false: "eur"}[s.Currency == "eur"]
	},
	"event_customer": func(_ *stripego.Event, s *stripego.CheckoutSession) {
		s.Customer = &stripego.Customer{ID: newID("cus_")}
	},
	"event_reference": func(_ *stripego.Event, s *stripego.CheckoutSession) { s.ClientReferenceID = newID("") },
	"event_livemode":  func(e *stripego.Event, s *stripego.CheckoutSession) { e.Livemode, s.Livemode = true, true },
	"event_account":   func(e *stripego.Event, _ *stripego.CheckoutSession) { e.Account = newID("acct_1") },
	"event_version":   func(e *stripego.Event, _ *stripego.CheckoutSession) { e.APIVersion = "2024-06-20" },
}

// Faults returns the names of all faults, sorted, and their descriptions.
func Faults() (names []string, does map[string]string) {
	return slices.Sorted(maps.Keys(faults)), maps.Clone(faults)
}

// takeFault returns the first of the names that is pending and counts it, or "".
func (s *Server) takeFault(names ...string) string {
	for _, name := range names {
		if s.state.Faults[name] > 0 {
			if s.state.Faults[name]--; s.state.Faults[name] == 0 {
				delete(s.state.Faults, name)
			}
			return name
		}
	}
	return ""
}

// corrupt applies the pending faults to the event of a payment.
func (s *Server) corrupt(e *stripego.Event, session *stripego.CheckoutSession) {
	for name, change := range corruptions {
		if s.takeFault(name) != "" {
			change(e, session)
		}
	}
}
