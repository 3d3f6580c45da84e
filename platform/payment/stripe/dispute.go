package stripe

import (
	"context"
	"strings"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/dispute"
	"github.com/stripe/stripe-go/v76/paymentintent"

	"github.com/gpuaas/gpuaas/platform/payment"
)

// disputeStages are the stages of Stripe's statuses.
var disputeStages = map[stripe.DisputeStatus]payment.DisputeStage{
	stripe.DisputeStatusWarningNeedsResponse: payment.DisputeInquiry,
	stripe.DisputeStatusWarningUnderReview:   payment.DisputeInquiry,
	stripe.DisputeStatusWarningClosed:        payment.DisputeInquiry,
	stripe.DisputeStatusNeedsResponse:        payment.DisputeOpen,
	stripe.DisputeStatusUnderReview:          payment.DisputeOpen,
	stripe.DisputeStatusLost:                 payment.DisputeLost,
	stripe.DisputeStatusWon:                  payment.DisputeWon,
}

// Dispute returns the current state of a dispute.
func (c *Client) Dispute(ctx context.Context, id string) (payment.Disputed, error) {
	params := &stripe.DisputeParams{}
	params.Context = ctx
	d, err := dispute.Client{B: c.backend, Key: c.key}.Get(id, params)
	if err != nil {
		return payment.Disputed{}, failure("reading dispute "+id, err)
	}
	said := payment.Disputed{
		ID: d.ID, Amount: minor(d.Amount), Currency: strings.ToUpper(string(d.Currency)), Reason: string(d.Reason),
		Stage: disputeStages[d.Status], // empty for a status that this version does not have
	}
	if d.PaymentIntent == nil {
		return said, nil
	}
	said.Payment = d.PaymentIntent.ID
	said.Session, err = c.sessionOf(ctx, said.Payment)
	return said, err
}

// sessionOf returns our id of the session that a payment belongs to, or "".
func (c *Client) sessionOf(ctx context.Context, payment string) (string, error) {
	params := &stripe.PaymentIntentParams{}
	params.Context = ctx
	p, err := paymentintent.Client{B: c.backend, Key: c.key}.Get(payment, params)
	if err != nil {
		return "", failure("reading payment "+payment, err)
	}
	return p.Metadata[metaSession], nil
}
