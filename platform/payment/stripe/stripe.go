// Package stripe is the adapter of the payment provider Stripe. It is the only package that imports
// Stripe's library, whose version fixes the API version: 2023-10-16.
//
// It stores nothing, retries little, and sends an id of ours as the idempotency key of every change. It
// removes the data about the local machine that the library would send to Stripe.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/billingportal/session"
	checkout "github.com/stripe/stripe-go/v76/checkout/session"
	"github.com/stripe/stripe-go/v76/customer"
	"github.com/stripe/stripe-go/v76/paymentintent"
	"github.com/stripe/stripe-go/v76/refund"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// Config is an account at Stripe.
type Config struct {
	Key           string // sk_test_… or sk_live_…, or a restricted rk_…
	WebhookSecret string // whsec_…
	URL           string // of the API; empty: Stripe's own
}

// Client is a payment.Provider.
type Client struct {
	key, secret string
	live        bool
	backend     stripe.Backend
}

var _ payment.Provider = (*Client)(nil)

const (
	// timeout is a third of a job's time limit, so that one call and its repetition end within it.
	timeout = 10 * time.Second
	// A page of a hundred events weighs less.
	maxAnswer = 16 << 20
)

// New returns a client. It sends no request.
func New(c Config) (*Client, error) {
	live, err := Live(c.Key)
	if err != nil {
		return nil, err
	}
	if c.WebhookSecret == "" {
		return nil, errors.New("a Stripe key without a webhook secret: no webhook could be verified")
	}
	cfg := &stripe.BackendConfig{
		HTTPClient:        &http.Client{Timeout: timeout, Transport: discreet{http.DefaultTransport}, CheckRedirect: never},
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // errors are returned, and logged once
		MaxNetworkRetries: new(int64(1)),
		EnableTelemetry:   new(false),
	}
	if c.URL != "" {
		cfg.URL = new(strings.TrimSuffix(c.URL, "/"))
	}
	return &Client{key: c.Key, secret: c.WebhookSecret, live: live, backend: stripe.GetBackendWithConfig(stripe.APIBackend, cfg)}, nil
}

// Live reports the mode of a key.
func Live(key string) (bool, error) {
	for _, kind := range []string{"sk_", "rk_"} {
		switch {
		case strings.HasPrefix(key, kind+"live_"):
			return true, nil
		case strings.HasPrefix(key, kind+"test_"):
			return false, nil
		}
	}
	return false, errors.New("a Stripe key begins with sk_test_, sk_live_, rk_test_ or rk_live_")
}

// Livemode reports whether the account moves real money.
func (c *Client) Livemode() bool { return c.live }

// discreet removes the library's data about the local machine from requests, and limits the size of
// responses.
type discreet struct{ http.RoundTripper }

func (d discreet) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Stripe-Client-User-Agent")
	res, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

// never rejects redirects, so that the key is sent to one server only.
func never(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// failure sorts an error of the library.
func failure(doing string, err error) error {
	said, ok := errors.AsType[*stripe.Error](err)
	if !ok {
		return errs.New(errs.ProviderFailed, "the payment provider cannot be reached").Try("repeat it in a moment").Because(fmt.Errorf("%s: %w", doing, err))
	}
	cause := fmt.Errorf("%s: Stripe responds %d %s %s: %s (request %s)", doing, said.HTTPStatusCode, said.Type, said.Code, said.Msg, said.RequestID)
	switch {
	case said.HTTPStatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", payment.ErrUnknown, cause)
	// 401, 403, 409 and 429 are excluded: a wrong key, a race and a rate limit are not about the
	// request itself.
	case said.Type == stripe.ErrorTypeInvalidRequest && said.HTTPStatusCode == http.StatusBadRequest, said.HTTPStatusCode == http.StatusPaymentRequired:
		return fmt.Errorf("%w: %w", payment.ErrRejected, cause)
	}
	return errs.New(errs.ProviderFailed, "the payment provider cannot do this now").Try("repeat it in a moment").Because(cause)
}

// Metadata keys under which Stripe stores our ids.
const (
	metaTenant  = "gpuaas_tenant"
	metaSession = "gpuaas_session"
	metaRefund  = "gpuaas_refund"
	metaMandate = "gpuaas_mandate"
)

// CreateCustomer makes the tenant known.
func (c *Client) CreateCustomer(ctx context.Context, n payment.NewCustomer) (string, error) {
	params := &stripe.CustomerParams{Name: new(n.Name)}
	params.Context = ctx
	params.AddMetadata(metaTenant, n.Tenant.String())
	// The name is in it: the same key with another body is an error there.
	params.SetIdempotencyKey(key("customer", n.Tenant.String(), n.Name))
	made, err := customer.Client{B: c.backend, Key: c.key}.New(params)
	if err != nil {
		return "", failure("making a customer", err)
	}
	return made.ID, nil
}

// OpenCheckout makes a page for one payment of one amount.
func (c *Client) OpenCheckout(ctx context.Context, n payment.NewCheckout) (payment.Checkout, error) {
	id := n.Session.String()
	params := &stripe.CheckoutSessionParams{
		Mode:              new(string(stripe.CheckoutSessionModePayment)),
		Customer:          new(n.Customer),
		ClientReferenceID: new(id),
		LineItems: []*stripe.CheckoutSessionLineItemParams{{
			Quantity: new(int64(1)),
			PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
				Currency:    new(strings.ToLower(n.Currency)),
				UnitAmount:  new(int64(n.Amount)),
				ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: new("Credit")},
			},
		}},
		PaymentIntentData: &stripe.CheckoutSessionPaymentIntentDataParams{Metadata: map[string]string{metaSession: id}},
		SuccessURL:        new(n.SuccessURL),
		CancelURL:         new(n.CancelURL),
		ExpiresAt:         new(n.ExpiresAt.Unix()),
	}
	params.Context = ctx
	params.AddMetadata(metaSession, id)
	params.AddMetadata(metaTenant, n.Tenant.String())
	params.SetIdempotencyKey(key("checkout", id))
	made, err := checkout.Client{B: c.backend, Key: c.key}.New(params)
	if err != nil {
		return payment.Checkout{}, failure("opening a checkout", err)
	}
	return inOurs(made), nil
}

// Checkout returns the state of a checkout. If the money of a checkout was pending, the payment contains
// the result.
func (c *Client) Checkout(ctx context.Context, id string) (payment.Checkout, error) {
	params := &stripe.CheckoutSessionParams{}
	params.Context = ctx
	found, err := checkout.Client{B: c.backend, Key: c.key}.Get(id, params)
	if err != nil {
		return payment.Checkout{}, failure("reading checkout "+id, err)
	}
	said := inOurs(found)
	if said.Mode == payment.ModeSetup && found.SetupIntent != nil {
		said.Method, err = c.storedMethod(ctx, found.SetupIntent.ID)
		return said, err
	}
	if said.Stage != payment.StageComplete || said.Paid != payment.PaidLater || said.Payment == "" {
		return said, nil
	}
	intent := &stripe.PaymentIntentParams{}
	intent.Context = ctx
	p, err := paymentintent.Client{B: c.backend, Key: c.key}.Get(said.Payment, intent)
	if err != nil {
		return payment.Checkout{}, failure("reading payment "+said.Payment, err)
	}
	if p.Status == stripe.PaymentIntentStatusRequiresPaymentMethod || p.Status == stripe.PaymentIntentStatusCanceled {
		said.Paid = payment.PaidNever
	}
	return said, nil
}

func inOurs(s *stripe.CheckoutSession) payment.Checkout {
	c := payment.Checkout{
		ID: s.ID, Mode: string(s.Mode), Reference: s.ClientReferenceID, Session: s.Metadata[metaSession], Amount: minor(s.AmountTotal), Currency: strings.ToUpper(string(s.Currency)), Livemode: s.Livemode,
		Stage: payment.Stage(s.Status), Paid: payment.Paid(s.PaymentStatus), URL: s.URL, Mandate: s.Metadata[metaMandate],
	}
	if s.Customer != nil {
		c.Customer = s.Customer.ID
	}
	if s.PaymentIntent != nil {
		c.Payment = s.PaymentIntent.ID
	}
	if s.ExpiresAt > 0 {
		c.ExpiresAt = time.Unix(s.ExpiresAt, 0).UTC()
	}
	return c
}

// OpenPortal makes a page on which the customer sees cards and receipts.
func (c *Client) OpenPortal(ctx context.Context, who, returnURL string) (string, error) {
	params := &stripe.BillingPortalSessionParams{Customer: new(who), ReturnURL: new(returnURL)}
	params.Context = ctx
	made, err := session.Client{B: c.backend, Key: c.key}.New(params)
	if err != nil {
		return "", failure("opening the portal", err)
	}
	return made.URL, nil
}

// Refund refunds money once. It searches for the refund before it creates one: Stripe replays a response
// of 500 for a repeated key for a day, although the refund exists, and drops the key afterwards.
func (c *Client) Refund(ctx context.Context, n payment.NewRefund) (payment.Refunded, error) {
	client := refund.Client{B: c.backend, Key: c.key}
	if n.ProviderID != "" {
		params := &stripe.RefundParams{}
		params.Context = ctx
		found, err := client.Get(n.ProviderID, params)
		if err != nil {
			return payment.Refunded{}, failure("reading refund "+n.ProviderID, err)
		}
		said := refunded(found)
		if said.Reference == "" && said.Payment != "" {
			said.Session, err = c.sessionOf(ctx, said.Payment)
		}
		return said, err
	}
	look := &stripe.RefundListParams{PaymentIntent: new(n.Payment)}
	look.Context = ctx
	found := client.List(look)
	for found.Next() {
		if r := found.Refund(); r.Metadata[metaRefund] == n.ID.String() {
			return refunded(r), nil
		}
	}
	if err := found.Err(); err != nil {
		return payment.Refunded{}, failure("looking for a refund of "+n.Payment, err)
	}
	params := &stripe.RefundParams{
		PaymentIntent: new(n.Payment), Amount: new(int64(n.Amount)),
		Reason: new(string(stripe.RefundReasonRequestedByCustomer)),
	}
	params.Context = ctx
	params.AddMetadata(metaRefund, n.ID.String())
	params.SetIdempotencyKey(key("refund", n.ID.String()))
	made, err := client.New(params)
	if err != nil {
		return payment.Refunded{}, failure("refunding "+n.Payment, err)
	}
	return refunded(made), nil
}

func refunded(r *stripe.Refund) payment.Refunded {
	said := payment.Refunded{ID: r.ID, Reference: r.Metadata[metaRefund], Amount: minor(r.Amount), Stage: payment.RefundPending}
	switch r.Status {
	case stripe.RefundStatusPending, stripe.RefundStatusRequiresAction:
	case stripe.RefundStatusSucceeded:
		said.Stage = payment.RefundSucceeded
	case stripe.RefundStatusFailed, stripe.RefundStatusCanceled:
		said.Stage, said.Failure = payment.RefundFailed, string(r.Status)
		if r.FailureReason != "" {
			said.Failure = string(r.FailureReason)
		}
	}
	if r.PaymentIntent != nil {
		said.Payment = r.PaymentIntent.ID
	}
	return said
}
