package stripe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	takeWithin = 10 * time.Second
	giveUpFor  = 3 * 24 * time.Hour // as the API does for live webhooks
	// What a receiver may allow between signing and reading.
	tolerance = 5 * time.Minute
)

// subscribed are the events that a webhook is told of; the API lists all.
var subscribed = []string{
	"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed", "checkout.session.expired",
	"charge.refunded", "charge.refund.updated", "refund.created", "refund.updated", "refund.failed", "charge.dispute.created",
}

// pause doubles from a second to a minute: whoever develops a webhook waits for it.
func pause(attempts int) time.Duration {
	const most = time.Minute
	if attempts > 6 {
		return most
	}
	return min(time.Second<<max(attempts-1, 0), most)
}

func (d *delivery) over() bool { return d.Done || d.GaveUp }

// emit notes that something has happened to an object, and sends word of it.
func (s *Server) emit(kind string, what, before object, now time.Time) {
	e := &event{
		ID: named("evt_1"), Created: now.Unix(), Type: kind, Version: Version, RequestID: s.request.id, Key: s.request.key,
	}
	s.spoil(e, what)
	e.Object, e.Before = encoded(what), encoded(before)
	s.state.events.put(e)
	if slices.Contains(subscribed, kind) {
		s.dispatch(e, now)
	}
}

// encoded returns nil for nothing. Everything here was made to be encoded.
func encoded(what object) json.RawMessage {
	if what == nil {
		return nil
	}
	text, err := json.Marshal(what)
	if err != nil {
		return nil
	}
	return text
}

// dispatch puts an event on its way, with what a fault does to it.
func (s *Server) dispatch(e *event, now time.Time) {
	d := &delivery{ID: named("wd_"), Event: e.ID, DueAt: now, Fault: s.strikeWebhook()}
	// What was held back for its successor goes right after it.
	for _, held := range s.state.deliveries.rows {
		if held.Fault == faultWebhookReorder && !held.over() {
			held.Fault, held.DueAt = "", now.Add(time.Nanosecond)
			s.state.deliveries.put(held)
		}
	}
	switch d.Fault {
	case faultWebhookDrop:
		d.GaveUp, d.Problem = true, "dropped on demand"
	case faultWebhookDelay, faultWebhookReorder:
		d.DueAt = now.Add(s.cfg.Late)
	case faultWebhookDuplicate:
		s.state.deliveries.put(&delivery{ID: named("wd_"), Event: e.ID, DueAt: now})
	}
	s.state.deliveries.put(d)
}

// step does one thing that is due, or says how long nothing will be.
func (s *Server) step(ctx context.Context, next *time.Duration) (did bool) {
	var d delivery
	var body []byte
	var target string
	err := s.look(func(now time.Time) {
		target = s.target
		due, at := s.nextDelivery(now)
		*next = min(at.Sub(now), s.nextPass(now).Sub(now))
		if due == nil || target == "" {
			return
		}
		if e, ok := s.state.events.get(due.Event); ok {
			d, body, did = *due, encoded(s.showEvent(e)), true
		}
	})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "a payment was not written down", "component", "checkout", "err", err)
		*next = time.Second
		return false
	}
	if !did {
		*next = max(*next, time.Millisecond)
		return false
	}
	problem := s.deliver(ctx, target, d, body)
	if ctx.Err() != nil { // the end cut it off: it will be sent again
		return false
	}
	s.delivered(ctx, d.ID, problem)
	return true
}

// look is change without a word to Run, which is who looks.
func (s *Server) look(do func(now time.Time)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	s.pass(now)
	do(now)
	return s.keep()
}

// nextDelivery is the one that is due for the longest time, or nil and when the
// next will be.
func (s *Server) nextDelivery(now time.Time) (due *delivery, at time.Time) {
	at = now.Add(longest)
	for _, d := range s.state.deliveries.rows {
		if !d.over() && d.DueAt.Before(at) {
			due, at = d, d.DueAt
		}
	}
	if at.After(now) {
		due = nil
	}
	return due, at
}

// deliver sends one, and says what was wrong.
func (s *Server) deliver(ctx context.Context, to string, d delivery, body []byte) (problem string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "gpuaas development payments")
	r.Header.Set("Stripe-Signature", s.signature(d, body))
	answer, err := s.webhook.Do(r)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody)) // so that the connection can be used again
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return "answered " + answer.Status
	}
	return ""
}

// signature is made at each attempt: a receiver refuses an old one.
func (s *Server) signature(d delivery, body []byte) string {
	at, secret := s.cfg.Clock.Now(), s.cfg.WebhookSecret
	switch d.Fault {
	case faultWebhookForged:
		secret = "whsec_of_somebody_else"
	case faultWebhookStale:
		at = at.Add(-tolerance - time.Second)
	}
	return Sign(body, secret, at)
}

// Sign makes the header that proves who sent a body, and when.
func Sign(body []byte, secret string, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.", stamp)
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// delivered notes how an attempt went. A signature that is wrong on purpose is
// wrong once: the next attempt is signed as it should be.
func (s *Server) delivered(ctx context.Context, id, problem string) {
	err := s.look(func(now time.Time) {
		d, ok := s.state.deliveries.get(id)
		if !ok {
			return
		}
		d.Attempts++
		d.Problem, d.Done, d.Fault = problem, problem == "", ""
		d.DueAt = now.Add(s.cfg.Pause(d.Attempts))
		if e, ok := s.state.events.get(d.Event); ok && !d.Done && now.Sub(time.Unix(e.Created, 0)) > giveUpFor {
			d.GaveUp = true
		}
		s.state.deliveries.put(d)
	})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "a delivery was not written down", "component", "checkout", "err", err)
	}
	if problem != "" {
		s.cfg.Log.WarnContext(ctx, "a payment event was not taken", "component", "checkout", "err", problem)
	}
}
