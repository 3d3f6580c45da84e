package payment

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Provider is the port to the payment provider. Each call that changes something can be repeated and has
// one effect, because it carries our own ids.
//
// A temporary failure is an error with code provider_failed, a permanent one is ErrRejected, and an
// unknown object is ErrUnknown.
type Provider interface {
	Pages
	Movements
	// Livemode reports whether the account moves real money.
	Livemode() bool
	// Events returns the events since a time, page by page, in any sequence.
	Events(ctx context.Context, since time.Time, page func([]Event) error) error
	// Verify reads a signed event. It rejects an event with a wrong or an old signature with
	// signature_invalid.
	Verify(body []byte, signature string, now time.Time) (Event, error)
}

// Movements of money without a page.
type Movements interface {
	// Charge charges a stored payment method and returns the result. A repeated call finds the existing
	// charge, even if the first response was lost. A charge that the bank declines is a result.
	Charge(ctx context.Context, c NewCharge) (Checkout, error)
	// Refund refunds money and returns the progress. A repeated call finds the existing refund, even if
	// the first response was lost.
	Refund(ctx context.Context, r NewRefund) (Refunded, error)
	// Dispute returns the current state of a dispute.
	Dispute(ctx context.Context, id string) (Disputed, error)
}

// Pages are the addresses of the provider's pages for users.
type Pages interface {
	// CreateCustomer makes the tenant known, once.
	CreateCustomer(ctx context.Context, c NewCustomer) (customer string, err error)
	// OpenCheckout makes the page on which a person pays.
	OpenCheckout(ctx context.Context, c NewCheckout) (Checkout, error)
	// OpenSetup makes the page on which a person stores a payment method.
	OpenSetup(ctx context.Context, n NewSetup) (Checkout, error)
	// Checkout returns the current state of a checkout.
	Checkout(ctx context.Context, id string) (Checkout, error)
	// OpenPortal makes the page on which a tenant sees its cards and receipts.
	OpenPortal(ctx context.Context, customer, returnURL string) (url string, err error)
}

// NewCustomer contains the properties of the tenant's customer at the provider.
type NewCustomer struct {
	Tenant      ids.Tenant
	Name, Email string
}

// NewCheckout is one payment to be.
type NewCheckout struct {
	Session               ids.PaymentSession
	Tenant                ids.Tenant
	Customer              string
	Amount                money.Minor
	Currency              string
	SuccessURL, CancelURL string
	ExpiresAt             time.Time
}

// NewSetup is a payment method to be stored.
type NewSetup struct {
	Mandate               ids.Mandate
	Tenant                ids.Tenant
	Customer, Currency    string
	SuccessURL, CancelURL string
	ExpiresAt             time.Time
}

// NewCharge is the charge of a stored payment method. The tenant, the month and the number identify it.
type NewCharge struct {
	Session    ids.PaymentSession
	Tenant     ids.Tenant
	Month      string
	Number     int
	Customer   string
	Method     string // empty: search only
	Amount     money.Minor
	Currency   string
	CreatedAt  time.Time // the charge is not older
	ProviderID string    // empty until the provider has reported it
}

// Paid is the payment state of a checkout.
type Paid string

// The payment states of the provider.
const (
	PaidYes   Paid = "paid"
	PaidLater Paid = "unpaid" // not yet
	PaidNever Paid = "failed" // the bank has rejected it
	PaidNone  Paid = "no_payment_required"
)

// Stage is the progress of a checkout.
type Stage string

// The stages at the provider.
const (
	StageOpen       Stage = "open"
	StageComplete   Stage = "complete"
	StageExpired    Stage = "expired"
	StageUnreported Stage = "unreported" // nothing was reported within reportWithin
)

// Checkout is the provider's report of a checkout session.
type Checkout struct {
	ID        string      `json:"id"`
	Mode      string      `json:"mode"`      // ModePayment, ModeSetup or ModeCharge; others are none of ours
	Reference string      `json:"reference"` // the id of our session, which a browser can set on some pages
	Session   string      `json:"session"`   // the same id, which only a holder of the account's key can set
	Customer  string      `json:"customer"`
	Payment   string      `json:"payment"` // empty until it is paid
	Amount    money.Minor `json:"amount_minor"`
	Currency  string      `json:"currency"` // ISO 4217, upper case
	Livemode  bool        `json:"livemode"`
	Stage     Stage       `json:"stage"`
	Paid      Paid        `json:"paid"`
	Failure   string      `json:"failure,omitempty"` // reason of the bank
	Mandate   string      `json:"mandate,omitempty"` // the id of our mandate, of a checkout that stores a payment method
	Method    string      `json:"method,omitempty"`  // the stored payment method; only in the response to a query
	URL       string      `json:"url,omitempty"`
	ExpiresAt time.Time   `json:"expires_at"`
}

// The modes of a checkout.
const (
	ModePayment = "payment" // pays once
	ModeSetup   = "setup"   // stores a payment method
	ModeCharge  = "charge"  // is no checkout: the charge of a stored payment method
)

// FailureAuthentication is the failure of a charge that a repetition does not change: the bank wants its customer.
const FailureAuthentication = "authentication_required"

// NewRefund requests the refund of a part of a payment.
type NewRefund struct {
	ID      ids.Refund
	Payment string
	Amount  money.Minor
	// ProviderID is the provider's id of the refund, empty until the provider has reported it.
	ProviderID string
}

// RefundStage is the progress of a refund at the provider.
type RefundStage string

// The stages of a refund. One that has succeeded can still fail: the bank of the
// card sends it back.
const (
	RefundPending   RefundStage = "pending"
	RefundSucceeded RefundStage = "succeeded"
	RefundFailed    RefundStage = "failed"
)

// Refunded is the provider's report of a refund.
type Refunded struct {
	ID        string `json:"id"`
	Reference string `json:"reference"` // the id of our refund; empty when it is none of ours
	// Session is the id of our session that the payment belongs to. It is set only in the response to a
	// query for a refund that is none of ours.
	Session string      `json:"session,omitempty"`
	Payment string      `json:"payment"`
	Amount  money.Minor `json:"amount_minor"`
	Stage   RefundStage `json:"stage"`
	Failure string      `json:"failure,omitempty"`
}

// Event is one event of the provider.
type Event struct {
	ID, Type, APIVersion string
	Account              string // empty: our own
	Livemode             bool
	CreatedAt            time.Time
	Object               string // id of what it is about
	Body                 []byte // as it was sent
	Payload              EventPayload
}

// EventPayload is the readable part of an event. It is empty if the event has another API version.
type EventPayload struct {
	Checkout *Checkout `json:"checkout,omitempty"`
	Refund   *Refunded `json:"refund,omitempty"`
	// Dispute is never in a stored event. The provider is queried for each one, because a late event would
	// contain an old stage.
	Dispute *Disputed `json:"-"`
}

// DisputeStage is the progress of a dispute at the provider.
type DisputeStage string

// The stages of a dispute.
const (
	DisputeInquiry DisputeStage = "inquiry" // the bank has withdrawn nothing
	DisputeOpen    DisputeStage = "open"    // the bank has withdrawn the amount
	DisputeLost    DisputeStage = "lost"    // and does not return it
	DisputeWon     DisputeStage = "won"     // and has returned it
)

// Disputed is the provider's report of a dispute.
type Disputed struct {
	ID       string
	Payment  string
	Session  string // the id of our session that the payment belongs to, or ""
	Amount   money.Minor
	Currency string // ISO 4217, upper case
	Reason   string // in the terms of the provider, such as fraudulent
	Stage    DisputeStage
}

// isPartial reports whether the provider must be queried about the rest.
func (p EventPayload) isPartial() bool { return p.isExternal() || p.isSetup() }

// isSetup reports whether the event is about a payment method that a mandate of ours stores.
func (p EventPayload) isSetup() bool {
	return p.Checkout != nil && p.Checkout.Mode == ModeSetup && p.Checkout.Mandate != ""
}

// isExternal reports whether the event is about a refund that was not requested here.
func (p EventPayload) isExternal() bool { return p.Refund != nil && p.Refund.Reference == "" }
