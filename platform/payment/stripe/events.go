package stripe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// types are the events that are worked on.
var types = []string{
	"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed", "checkout.session.expired",
	"payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled",
	"refund.created", "refund.updated", "charge.refund.updated",
	"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
}

// tolerance applies in both directions: a signature from the future means a wrong clock, or an event
// that was saved to be replayed later.
const tolerance = webhook.DefaultTolerance

// Verify reads an event of which Stripe has signed these very bytes within the
// last five minutes.
func (c *Client) Verify(body []byte, signature string, now time.Time) (payment.Event, error) {
	if why := c.unsigned(body, signature, now); why != "" {
		return payment.Event{}, errs.New(errs.SignatureInvalid, "the signature of this event %s", why).
			Try("send the original body with its Stripe-Signature; compare the webhook secret and the clocks")
	}
	e, err := read(body)
	if err != nil {
		return payment.Event{}, errs.New(errs.BadRequest, "this is signed, and no event").Because(err)
	}
	return e, nil
}

// unsigned returns the reason why the signature is invalid, or nothing if it is valid. The time is
// part of the signed text and must be recent, so that a recorded request cannot be replayed later.
// The comparison needs constant time, so that its duration does not reveal the signature.
func (c *Client) unsigned(body []byte, header string, now time.Time) (why string) {
	var at time.Time
	var signatures [][]byte
	for pair := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "t":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil || !at.IsZero() {
				return "has no time, or two"
			}
			at = time.Unix(seconds, 0)
		case "v1": // two of them while a secret is rolled
			if s, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, s)
			}
		}
	}
	if at.IsZero() || len(signatures) == 0 {
		return "is missing"
	}
	if off := now.Sub(at); off > tolerance || off < -tolerance {
		return "is older than five minutes, or in the future"
	}
	want := webhook.ComputeSignature(at, body, c.secret)
	for _, s := range signatures {
		if hmac.Equal(want, s) {
			return ""
		}
	}
	return "does not match"
}

// read parses an event. It uses the content only if the event has our API version; otherwise the
// provider is queried about the object.
func read(body []byte) (payment.Event, error) {
	var raw struct {
		ID, Object, Type string
		APIVersion       string `json:"api_version"`
		Account          string
		Livemode         bool
		Created          json.RawMessage
		Data             struct{ Object json.RawMessage }
	}
	// PostgreSQL stores no NUL in a text. The body is stored unchanged.
	if err := json.Unmarshal(bytes.ReplaceAll(body, []byte(`\u0000`), []byte(`\ufffd`)), &raw); err != nil {
		return payment.Event{}, fmt.Errorf("reading an event: %w", err)
	}
	at, err := eventTime(raw.Object, raw.Created)
	if err != nil || raw.ID == "" || raw.Type == "" {
		return payment.Event{}, fmt.Errorf("an event has an id, a type and a time")
	}
	e := payment.Event{
		ID: raw.ID, Type: raw.Type, APIVersion: raw.APIVersion, Account: raw.Account, Livemode: raw.Livemode, CreatedAt: at, Body: body,
	}
	if raw.Object == thinEvent {
		return e, nil
	}
	var about struct{ ID string }
	if err := json.Unmarshal(raw.Data.Object, &about); err != nil {
		return payment.Event{}, fmt.Errorf("reading what event %s is about: %w", raw.ID, err)
	}
	e.Object = about.ID
	e.Payload = says(e, raw.Data.Object)
	return e, nil
}

// thinEvent is the object of an event that contains no data. None of its types is about a payment here,
// so it is stored and ignored.
const thinEvent = "v2.core.event"

// eventTime reads the time of an event: seconds, or a text in a thin event.
func eventTime(object string, created json.RawMessage) (at time.Time, err error) {
	if object == thinEvent {
		err = json.Unmarshal(created, &at)
		return at.UTC(), err
	}
	var seconds int64
	if err = json.Unmarshal(created, &seconds); err == nil && (object != "event" || seconds <= 0) {
		err = fmt.Errorf("an object of type %q is no event", object)
	}
	return time.Unix(seconds, 0).UTC(), err
}

func says(e payment.Event, object json.RawMessage) (s payment.EventPayload) {
	switch {
	case e.APIVersion != stripe.APIVersion:
	case strings.HasPrefix(e.Type, "checkout.session."):
		var c stripe.CheckoutSession
		if json.Unmarshal(object, &c) == nil {
			said := inOurs(&c)
			if e.Type == "checkout.session.async_payment_failed" {
				said.Paid = payment.PaidNever
			}
			s.Checkout = &said
		}
	case strings.HasPrefix(e.Type, "payment_intent."):
		var p stripe.PaymentIntent
		if json.Unmarshal(object, &p) == nil {
			said := charged(&p)
			s.Checkout = &said
		}
	case strings.HasPrefix(e.Type, "refund."), e.Type == "charge.refund.updated":
		var r stripe.Refund
		if json.Unmarshal(object, &r) == nil {
			said := refunded(&r)
			s.Refund = &said
		}
	}
	return s
}

// listed is a page of events, each as Stripe has it.
type listed struct {
	stripe.APIResource
	stripe.ListMeta

	Data []json.RawMessage `json:"data"`
}

// Events reads Stripe's own list, which reaches back for 30 days.
func (c *Client) Events(ctx context.Context, since time.Time, page func([]payment.Event) error) error {
	params := &stripe.EventListParams{Types: stripe.StringSlice(types), CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()}}
	params.Context = ctx
	params.Limit = new(int64(100))
	var unread error
	for {
		var found listed
		query := &form.Values{}
		form.AppendTo(query, params)
		if err := c.backend.CallRaw(http.MethodGet, "/v1/events", c.key, query, params.ToParams(), &found); err != nil {
			return failure("listing events", err)
		}
		events := make([]payment.Event, 0, len(found.Data))
		for _, raw := range found.Data {
			e, err := read(raw)
			if err != nil {
				unread = errors.Join(unread, err) // the other events carry money as well
				continue
			}
			events = append(events, e)
		}
		if len(events) > 0 {
			if err := page(events); err != nil {
				return err
			}
		}
		if !found.HasMore || len(events) == 0 {
			return unread
		}
		params.StartingAfter = new(events[len(events)-1].ID)
	}
}

// key returns an idempotency key: the same for the same input, and short.
func key(words ...string) string {
	hash := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return "gpuaas-" + words[0] + "-" + hex.EncodeToString(hash[:16])
}

func minor(n int64) money.Minor { return money.Minor(n) }
