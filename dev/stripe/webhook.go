package stripe

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"
)

// giveUpAfter is the time for which Stripe retries a live webhook.
const giveUpAfter = 3 * 24 * time.Hour

// pause doubles from a second to a minute. Stripe pauses for hours, which is too long for development.
func pause(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 6), time.Minute)
}

// emit stores an event and queues its webhook. before contains the former values of changed fields.
func (s *Server) emit(kind stripego.EventType, resource any, before map[string]any, now time.Time) {
	e := &stripego.Event{
		ID: newID("evt_1"), Object: "event", Created: now.Unix(), Type: kind, APIVersion: stripego.APIVersion,
		Data: &stripego.EventData{PreviousAttributes: before},
	}
	if session, ok := resource.(stripego.CheckoutSession); ok {
		if session.PaymentStatus == stripego.CheckoutSessionPaymentStatusPaid {
			s.corrupt(e, &session)
		}
		resource = session
	}
	e.Data.Raw = encode(resource)
	s.state.Events = append(s.state.Events, e)
	s.queue(e, now)
}

func encodeEvent(e *stripego.Event) json.RawMessage {
	text, _ := json.Marshal(e) //nolint:errchkjson // the resource in the event is encoded already
	return text
}

// queue creates the deliveries of an event. A pending fault changes them.
func (s *Server) queue(e *stripego.Event, now time.Time) {
	d := &delivery{Event: e.ID, Due: now, Fault: s.takeFault(faultWebhookDrop, faultWebhookDelay, faultWebhookDuplicate, faultWebhookReorder, faultWebhookForged, faultWebhookStale)}
	for _, earlier := range s.state.Deliveries { // reordered deliveries follow this one
		if earlier.Fault == faultWebhookReorder && earlier.pending() {
			earlier.Fault, earlier.Due = "", now.Add(time.Nanosecond)
		}
	}
	switch d.Fault {
	case faultWebhookDrop:
		d.GaveUp, d.Problem = true, "dropped on demand"
	case faultWebhookDelay, faultWebhookReorder:
		d.Due = now.Add(s.cfg.Late)
	case faultWebhookDuplicate:
		s.state.Deliveries = append(s.state.Deliveries, &delivery{Event: e.ID, Due: now})
	}
	s.state.Deliveries = append(s.state.Deliveries, d)
}

// deliverNext sends the delivery that is due first. Without one it returns the time until the next
// change. An attempt that ctx interrupts is repeated after a restart.
func (s *Server) deliverNext(ctx context.Context) (wait time.Duration, delivered bool) {
	var due *delivery
	var body []byte
	var header, target string
	err := s.apply(func(now time.Time) error {
		for _, d := range s.state.Deliveries {
			if d.pending() && s.target != "" && s.due(d.Due, now) && (due == nil || d.Due.Before(due.Due)) {
				due = d
			}
		}
		wait, target = s.next.Sub(now), s.target
		if due != nil {
			body = encodeEvent(s.event(due.Event))
			header = s.signature(due, body, now)
		}
		return nil
	})
	if err != nil || due == nil {
		return max(wait, time.Millisecond), false
	}
	problem := s.send(ctx, target, header, body)
	if ctx.Err() != nil {
		return 0, false
	}
	if problem != "" {
		s.cfg.Log.WarnContext(ctx, "the webhook rejected an event", "component", "checkout", "err", problem)
	}
	err = s.apply(func(now time.Time) error {
		due.Attempts++
		due.Problem, due.Done, due.Fault, due.Due = problem, problem == "", "", now.Add(s.cfg.Pause(due.Attempts))
		due.GaveUp = !due.Done && now.Sub(time.Unix(s.event(due.Event).Created, 0)) > giveUpAfter
		return nil
	})
	return time.Second, err == nil
}

// send posts one event and returns the problem, or "".
func (s *Server) send(ctx context.Context, to, signature string, body []byte) (problem string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("Stripe-Signature", signature)
	response, err := s.webhook.Do(r)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)) // so that the connection is reused
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return "answered " + response.Status
	}
	return ""
}

// signature signs one attempt, because the receiver rejects old signatures.
func (s *Server) signature(d *delivery, body []byte, at time.Time) string {
	secret := s.cfg.WebhookSecret
	switch d.Fault {
	case faultWebhookForged:
		secret = "whsec_forged"
	case faultWebhookStale:
		at = at.Add(-webhook.DefaultTolerance - time.Second)
	}
	return Sign(body, secret, at)
}

// Sign returns the signature header of an event.
func Sign(body []byte, secret string, at time.Time) string {
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(webhook.ComputeSignature(at, body, secret)))
}
