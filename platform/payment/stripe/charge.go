package stripe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	checkout "github.com/stripe/stripe-go/v76/checkout/session"
	"github.com/stripe/stripe-go/v76/paymentintent"
	"github.com/stripe/stripe-go/v76/setupintent"

	"github.com/gpuaas/gpuaas/platform/payment"
)

// OpenSetup makes a page that stores a card for charges without its holder.
func (c *Client) OpenSetup(ctx context.Context, n payment.NewSetup) (payment.Checkout, error) {
	id := n.Mandate.String()
	params := &stripe.CheckoutSessionParams{
		Mode:               new(string(stripe.CheckoutSessionModeSetup)),
		Customer:           new(n.Customer),
		ClientReferenceID:  new(id),
		PaymentMethodTypes: []*string{new("card")},
		SuccessURL:         new(n.SuccessURL),
		CancelURL:          new(n.CancelURL),
		ExpiresAt:          new(n.ExpiresAt.Unix()),
	}
	params.Context = ctx
	params.AddMetadata(metaMandate, id)
	params.AddMetadata(metaTenant, n.Tenant.String())
	params.SetIdempotencyKey(key("setup", id))
	made, err := checkout.Client{B: c.backend, Key: c.key}.New(params)
	if err != nil {
		return payment.Checkout{}, failure("opening a page for a card", err)
	}
	return inOurs(made), nil
}

// storedMethod returns the payment method that a checkout has stored, or "".
func (c *Client) storedMethod(ctx context.Context, id string) (string, error) {
	params := &stripe.SetupIntentParams{}
	params.Context = ctx
	s, err := setupintent.Client{B: c.backend, Key: c.key}.Get(id, params)
	if err != nil {
		return "", failure("reading setup "+id, err)
	}
	if s.Status != stripe.SetupIntentStatusSucceeded || s.PaymentMethod == nil {
		return "", nil
	}
	return s.PaymentMethod.ID, nil
}

// earlier covers the difference of the clocks in a search by time. The metadata of a charge selects it.
const earlier = 24 * time.Hour

// Charge charges a stored card once. It searches for the charge before it creates one, as Refund does. The
// idempotency key contains the tenant, the month and the number of the charge.
func (c *Client) Charge(ctx context.Context, n payment.NewCharge) (payment.Checkout, error) {
	client := paymentintent.Client{B: c.backend, Key: c.key}
	if n.ProviderID != "" {
		params := &stripe.PaymentIntentParams{}
		params.Context = ctx
		found, err := client.Get(n.ProviderID, params)
		if err != nil {
			return payment.Checkout{}, failure("reading payment "+n.ProviderID, err)
		}
		return charged(found), nil
	}
	list := &stripe.PaymentIntentListParams{
		Customer: new(n.Customer), CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: n.CreatedAt.Add(-earlier).Unix()},
	}
	list.Context = ctx
	found := client.List(list)
	for found.Next() {
		if p := found.PaymentIntent(); p.Metadata[metaSession] == n.Session.String() {
			return charged(p), nil
		}
	}
	switch err := found.Err(); {
	case err != nil:
		return payment.Checkout{}, failure("looking for charge "+n.Session.String(), err)
	case n.Method == "":
		return payment.Checkout{}, payment.ErrUnknown
	}
	params := &stripe.PaymentIntentParams{
		Amount: new(int64(n.Amount)), Currency: new(strings.ToLower(n.Currency)), Customer: new(n.Customer), PaymentMethod: new(n.Method),
		OffSession: new(true), Confirm: new(true), ErrorOnRequiresAction: new(true), PaymentMethodTypes: []*string{new("card")},
	}
	params.Context = ctx
	params.AddMetadata(metaSession, n.Session.String())
	params.AddMetadata(metaTenant, n.Tenant.String())
	params.SetIdempotencyKey(key("charge", n.Tenant.String(), n.Month, strconv.Itoa(n.Number)))
	made, err := client.New(params)
	if said, ok := errors.AsType[*stripe.Error](err); ok && said.HTTPStatusCode == http.StatusPaymentRequired && said.PaymentIntent != nil {
		if said.PaymentIntent.LastPaymentError == nil {
			said.PaymentIntent.LastPaymentError = said
		}
		return charged(said.PaymentIntent), nil
	}
	if err != nil {
		return payment.Checkout{}, failure("charging "+n.Session.String(), err)
	}
	return charged(made), nil
}

// charged is the report of a payment. One of a checkout has the same form; its session decides.
func charged(p *stripe.PaymentIntent) payment.Checkout {
	session := p.Metadata[metaSession]
	c := payment.Checkout{
		ID: p.ID, Mode: payment.ModeCharge, Reference: session, Session: session, Payment: p.ID, Amount: minor(p.Amount),
		Currency: strings.ToUpper(string(p.Currency)), Livemode: p.Livemode, Stage: payment.StageComplete, Paid: payment.PaidLater,
	}
	if p.Customer != nil {
		c.Customer = p.Customer.ID
	}
	switch p.Status {
	case stripe.PaymentIntentStatusSucceeded:
		c.Paid, c.Amount = payment.PaidYes, minor(p.AmountReceived)
	case stripe.PaymentIntentStatusRequiresPaymentMethod, stripe.PaymentIntentStatusCanceled:
		c.Paid, c.Failure = payment.PaidNever, declined(p.LastPaymentError)
	case stripe.PaymentIntentStatusRequiresAction, stripe.PaymentIntentStatusRequiresConfirmation:
		c.Paid, c.Failure = payment.PaidNever, payment.FailureAuthentication
	case stripe.PaymentIntentStatusProcessing, stripe.PaymentIntentStatusRequiresCapture:
	}
	return c
}

// declined returns the reason of a bank.
func declined(e *stripe.Error) string {
	switch {
	case e == nil:
		return ""
	case e.Code == stripe.ErrorCodeAuthenticationRequired, string(e.DeclineCode) == payment.FailureAuthentication:
		return payment.FailureAuthentication
	case e.DeclineCode != "":
		return string(e.DeclineCode)
	}
	return string(e.Code)
}
