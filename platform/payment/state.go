package payment

import "slices"

// State is the state of a session.
type State string

// The states of a session.
const (
	Initiated         State = "initiated"
	CheckoutCompleted State = "checkout_completed" // the money is pending
	Credited          State = "credited"
	FailedReconcile   State = "failed_reconcile" // what came is not what was begun
	Expired           State = "expired"
)

// States lists them.
func States() []State {
	return []State{Initiated, CheckoutCompleted, Credited, FailedReconcile, Expired}
}

// Valid reports whether the state exists.
func (s State) Valid() bool { return slices.Contains(States(), s) }

// Why a session ended without money.
const (
	reasonExpired    = "expired" // not paid in time
	reasonFailed     = "payment_failed"
	reasonUsed       = "payment_used" // the money was credited to another session
	reasonUnreported = "unreported"   // the provider has reported no result of a charge
)

// isOpen reports whether a report can still end the session without money.
func (s Session) isOpen() bool {
	return s.State == Initiated || s.State == CheckoutCompleted || s.State == FailedReconcile && s.Reason == reasonUnreported
}

// Claim is a report of a checkout: an event, or the provider's response to a query.
type Claim struct {
	Checkout

	Account string // whose event it is; empty: our own, or queried
	Live    bool   // the mode of the report
}

// Next returns the state of a session after a claim, and the reason. The sequence and the number of claims
// do not matter: no claim reverses a credit, and a claim that agrees with the session credits it from
// every other state.
func Next(s Session, c Claim) (State, string) {
	wrong := c.disagrees(s)
	switch {
	case s.State == Credited, c.Stage == StageOpen:
		return s.State, s.Reason
	case c.Stage == StageUnreported && (s.State == Initiated || s.State == CheckoutCompleted):
		return FailedReconcile, reasonUnreported
	case c.Stage == StageExpired && s.State != CheckoutCompleted && s.isOpen() && (s.ProviderID == "" || s.ProviderID == c.ID):
		return Expired, reasonExpired
	case c.Stage != StageComplete:
		return s.State, s.Reason
	case c.Paid == PaidNever && s.isOpen():
		return Expired, reasonFailed
	case c.Paid == PaidNever:
		return s.State, s.Reason
	case wrong != "" && s.State != FailedReconcile:
		return FailedReconcile, wrong
	case wrong != "":
		return s.State, s.Reason
	case c.Paid == PaidYes:
		return Credited, ""
	case s.State == Initiated:
		return CheckoutCompleted, ""
	}
	return s.State, s.Reason
}

// disagrees returns the first field in which a claim differs from the session.
func (c Claim) disagrees(s Session) string {
	for _, d := range []struct {
		what string
		is   bool
	}{
		{"account", c.Account != ""},
		{"livemode", c.Live != s.Livemode || c.Livemode != s.Livemode},
		{"mode", c.Mode != s.mode()},
		{"reference", c.Reference != s.ID.String() || c.Session != s.ID.String()},
		{"checkout", s.ProviderID != "" && c.ID != s.ProviderID},
		{"customer", c.Customer != s.Customer},
		{"currency", c.Currency != s.Currency},
		{"amount", c.Amount != s.Amount},
		{"not_paid", c.Paid == PaidNone},
		{"payment", c.Paid == PaidYes && c.Payment == ""},
	} {
		if d.is {
			return d.what
		}
	}
	return ""
}
