package stripe

import (
	"maps"
	"slices"
	"strings"
)

// Faults that can be asked for.
const (
	faultWebhookDrop      = "webhook_drop"
	faultWebhookDelay     = "webhook_delay"
	faultWebhookDuplicate = "webhook_duplicate"
	faultWebhookReorder   = "webhook_reorder"
	faultWebhookForged    = "webhook_forged"
	faultWebhookStale     = "webhook_stale"

	faultEventAmount    = "event_amount"
	faultEventCurrency  = "event_currency"
	faultEventCustomer  = "event_customer"
	faultEventReference = "event_reference"
	faultEventLivemode  = "event_livemode"
	faultEventAccount   = "event_account"
	faultEventVersion   = "event_version"

	faultAPIError   = "api_error"
	faultAPILost    = "api_lost"
	faultAPIKept    = "api_kept"
	faultAPITimeout = "api_timeout"

	faultRefundPending = "refund_pending"
	faultRefundFailed  = "refund_failed"
)

// faults say what happens to the next of their kind.
var faults = map[string]string{
	faultWebhookDrop:      "the next webhook is never sent; the API still lists its event",
	faultWebhookDelay:     "the next webhook is held back for a while",
	faultWebhookDuplicate: "the next webhook is sent twice",
	faultWebhookReorder:   "the next webhook is sent after the one that follows it",
	faultWebhookForged:    "the next webhook is first sent with another secret's signature",
	faultWebhookStale:     "the next webhook is first sent with a signature of five minutes ago",
	faultEventAmount:      "the next payment's event names another amount",
	faultEventCurrency:    "the next payment's event names another currency",
	faultEventCustomer:    "the next payment's event names another customer",
	faultEventReference:   "the next payment's event names another reference of the client",
	faultEventLivemode:    "the next payment's event says that it is live",
	faultEventAccount:     "the next payment's event is of a connected account",
	faultEventVersion:     "the next payment's event has another version of the API",
	faultAPIError:         "the next call is answered 500, and nothing is done",
	faultAPILost:          "the next call is done and answered 500; asking again with its key tells the truth",
	faultAPIKept:          "the next call is done and answered 500, and so is its key from then on",
	faultAPITimeout:       "the next call is done and not answered until its client gives up",
	faultRefundPending:    "the next refund is pending for a while, then succeeds",
	faultRefundFailed:     "the next refund succeeds, and fails after a while",
}

// Faults are the names, sorted, with what each does.
func Faults() (names []string, does map[string]string) {
	return slices.Sorted(maps.Keys(faults)), maps.Clone(faults)
}

// strike says whether a fault is to happen now, and counts it.
func (s *Server) strike(name string) bool {
	f, ok := s.state.faults.get(name)
	if !ok || f.Left == 0 {
		return false
	}
	f.Left--
	s.state.faults.put(f)
	return true
}

func (s *Server) strikeFirst(names ...string) string {
	for _, name := range names {
		if s.strike(name) {
			return name
		}
	}
	return ""
}

func (s *Server) strikeWebhook() string {
	return s.strikeFirst(faultWebhookDrop, faultWebhookDelay, faultWebhookDuplicate, faultWebhookReorder, faultWebhookForged, faultWebhookStale)
}

func (s *Server) strikeAPI() string {
	return s.strikeFirst(faultAPIError, faultAPILost, faultAPIKept, faultAPITimeout)
}

// spoil makes the event of a payment say what is not so. The payment itself stays
// as it is, for whoever asks again.
func (s *Server) spoil(e *event, what object) {
	if e.Type != "checkout.session.completed" && e.Type != "checkout.session.async_payment_succeeded" {
		return
	}
	if s.strike(faultEventAmount) {
		amount, _ := what["amount_total"].(int64)
		what["amount_total"], what["amount_subtotal"] = amount+100, amount+100
	}
	if s.strike(faultEventCurrency) {
		what["currency"] = map[bool]string{true: "usd", false: "eur"}[what["currency"] == "eur"]
	}
	if s.strike(faultEventCustomer) {
		what["customer"] = named("cus_")
	}
	if s.strike(faultEventReference) {
		what["client_reference_id"] = strings.TrimPrefix(named("ref_"), "ref_")
	}
	if s.strike(faultEventLivemode) {
		e.Livemode, what["livemode"] = true, true
	}
	if s.strike(faultEventAccount) {
		e.Account = named("acct_1")
	}
	if s.strike(faultEventVersion) {
		e.Version = "2024-06-20"
	}
}
