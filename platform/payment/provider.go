package payment

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Provider takes the money. Each call that changes something there may be made
// again and has one effect: the ids that it is given are ours.
//
// What it cannot do now and may do later is an error of code provider_failed;
// what it will never do is ErrRefused, and what it does not know ErrUnknown.
type Provider interface {
	Pages
	// Livemode says whether real money moves.
	Livemode() bool
	// Refund gives money back, and says how far that is. Asked again, it finds
	// what it has begun, also when its first answer was lost.
	Refund(ctx context.Context, r NewRefund) (Refunded, error)
	// Events hands over, page by page and in whatever order, what happened since.
	Events(ctx context.Context, since time.Time, page func([]Event) error) error
	// Verify reads an event that came with a signature, and refuses one that the
	// provider has not signed just now with signature_invalid.
	Verify(body []byte, signature string, now time.Time) (Event, error)
}

// Pages are where people meet the provider.
type Pages interface {
	// CreateCustomer makes the tenant known, once.
	CreateCustomer(ctx context.Context, c NewCustomer) (customer string, err error)
	// OpenCheckout makes the page on which a person pays.
	OpenCheckout(ctx context.Context, c NewCheckout) (Checkout, error)
	// Checkout asks how far one is.
	Checkout(ctx context.Context, id string) (Checkout, error)
	// OpenPortal makes the page on which a tenant sees its cards and receipts.
	OpenPortal(ctx context.Context, customer, returnURL string) (url string, err error)
}

// NewCustomer is who a tenant is to the provider.
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

// Paid is whether a checkout's money has come.
type Paid string

// What a provider says of the money.
const (
	PaidYes   Paid = "paid"
	PaidLater Paid = "unpaid" // not yet
	PaidNever Paid = "failed" // the bank said no in the end
	PaidNone  Paid = "no_payment_required"
)

// Stage is how far a checkout is.
type Stage string

// The stages at the provider.
const (
	StageOpen     Stage = "open"
	StageComplete Stage = "complete"
	StageExpired  Stage = "expired"
)

// Checkout is what the provider says of one.
type Checkout struct {
	ID        string      `json:"id"`
	Reference string      `json:"reference"` // the id of our session
	Customer  string      `json:"customer"`
	Payment   string      `json:"payment"` // empty until somebody pays
	Amount    money.Minor `json:"amount_minor"`
	Currency  string      `json:"currency"` // ISO 4217, upper case
	Livemode  bool        `json:"livemode"`
	Stage     Stage       `json:"stage"`
	Paid      Paid        `json:"paid"`
	URL       string      `json:"url,omitempty"`
	ExpiresAt time.Time   `json:"expires_at"`
}

// NewRefund asks for a part of a payment to go back.
type NewRefund struct {
	ID      ids.Refund
	Payment string
	Amount  money.Minor
	// ProviderID is what the provider calls it, once it has said so.
	ProviderID string
}

// RefundStage is how far a refund is at the provider.
type RefundStage string

// The stages of a refund. One that has succeeded can still fail: the bank of the
// card sends it back.
const (
	RefundPending   RefundStage = "pending"
	RefundSucceeded RefundStage = "succeeded"
	RefundFailed    RefundStage = "failed"
)

// Refunded is what the provider says of a refund.
type Refunded struct {
	ID        string      `json:"id"`
	Reference string      `json:"reference"` // the id of our refund; empty when it is none of ours
	Payment   string      `json:"payment"`
	Amount    money.Minor `json:"amount_minor"`
	Stage     RefundStage `json:"stage"`
	Failure   string      `json:"failure,omitempty"`
}

// Event is one thing that the provider has told.
type Event struct {
	ID, Type, APIVersion string
	Account              string // empty: our own
	Livemode             bool
	CreatedAt            time.Time
	Object               string // id of what it is about
	Body                 []byte // as it was sent
	Says                 Says
}

// Says is what an event says, as far as it was readable: of an event in another
// version of the provider's language it is empty.
type Says struct {
	Checkout *Checkout `json:"checkout,omitempty"`
	Refund   *Refunded `json:"refund,omitempty"`
	// Payment is what was disputed, or refunded by somebody else.
	Payment string `json:"payment,omitempty"`
}
