package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/gpuaas/gpuaas/internal/durable"
)

const (
	keyLifetime   = 24 * time.Hour      // as at Stripe
	eventLifetime = 30 * 24 * time.Hour // as at Stripe
)

// state contains all data of the double. Lists are in order of creation.
type state struct {
	Customers  map[string]*stripego.Customer
	Payments   []*payment
	Events     []*stripego.Event
	Deliveries []*delivery
	Replies    map[string]*reply // by idempotency key
	Faults     map[string]int    // injected and pending, by name
}

// payment is a checkout session with its intent and its refunds, or the charge of a stored card without a session.
type payment struct {
	Session    stripego.CheckoutSession
	Title      string            // of the line item
	Metadata   map[string]string // of the intent
	Intent     *stripego.PaymentIntent
	Setup      *stripego.SetupIntent // of a session that stores a card
	Number     string                // of the stored card
	Charges    int                   // cards that were tried
	Refunds    []*refund
	By         string // outcome of its refunds, by the card
	Dispute    *stripego.Dispute
	Settlement settlement
}

type refund struct {
	Refund     stripego.Refund
	Settlement settlement
}

// settlement is a status that a payment or a refund reaches later. The zero value means none.
type settlement struct {
	Status string
	At     time.Time
}

// delivery is an event on its way to the webhook.
type delivery struct {
	Event    string
	Due      time.Time
	Fault    string // of the next attempt
	Attempts int
	Problem  string // of the last attempt
	Done     bool
	GaveUp   bool
}

func (d *delivery) pending() bool { return !d.Done && !d.GaveUp }

// load reads the state file. It drops events and idempotency keys that Stripe would have deleted.
func (s *Server) load(now time.Time) error {
	s.state = state{Customers: map[string]*stripego.Customer{}, Replies: map[string]*reply{}, Faults: map[string]int{}}
	if s.cfg.Path == "" {
		return nil
	}
	text, err := os.ReadFile(s.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state of the payment double: %w", err)
	}
	if err := json.Unmarshal(text, &s.state); err != nil {
		return fmt.Errorf("decoding the state of the payment double in %s: %w", s.cfg.Path, err)
	}
	for key, r := range s.state.Replies {
		if now.Sub(r.At) >= keyLifetime {
			delete(s.state.Replies, key)
		}
	}
	s.state.Events = slices.DeleteFunc(s.state.Events, func(e *stripego.Event) bool {
		undelivered := slices.ContainsFunc(s.state.Deliveries, func(d *delivery) bool { return d.Event == e.ID && d.pending() })
		return !undelivered && now.Sub(time.Unix(e.Created, 0)) >= eventLifetime
	})
	s.state.Deliveries = slices.DeleteFunc(s.state.Deliveries, func(d *delivery) bool { return s.event(d.Event) == nil })
	return nil
}

// save replaces the state file if the state has changed.
func (s *Server) save() error {
	if s.cfg.Path == "" {
		return nil
	}
	text, err := json.Marshal(s.state)
	if err != nil {
		return fmt.Errorf("encoding the state of the payment double: %w", err)
	}
	if bytes.Equal(text, s.written) {
		return nil
	}
	if err := durable.Write(s.cfg.Path, text, 0o600); err != nil {
		return err
	}
	s.written = text
	return nil
}

// refundable returns the amount that no successful or pending refund has.
func (p *payment) refundable() int64 {
	left := p.Intent.Amount
	for _, r := range p.Refunds {
		if r.Refund.Status != stripego.RefundStatusFailed {
			left -= r.Refund.Amount
		}
	}
	return left
}

func find[T any](all []*T, matches func(*T) bool) *T {
	if n := slices.IndexFunc(all, matches); n >= 0 {
		return all[n]
	}
	return nil
}

func (s *Server) event(id string) *stripego.Event {
	return find(s.state.Events, func(e *stripego.Event) bool { return e.ID == id })
}

func (s *Server) payment(session string) *payment {
	return find(s.state.Payments, func(p *payment) bool { return p.Session.ID == session })
}

func (s *Server) paymentOf(intent string) *payment {
	return find(s.state.Payments, func(p *payment) bool { return p.Intent != nil && p.Intent.ID == intent })
}

// advance makes the changes that depend on time only, and stores when the next one is due.
func (s *Server) advance(now time.Time) {
	s.next = now.Add(longest)
	for _, p := range s.state.Payments {
		if p.Session.Status == stripego.CheckoutSessionStatusOpen && s.due(time.Unix(p.Session.ExpiresAt, 0), now) {
			p.Session.Status, p.Session.URL = stripego.CheckoutSessionStatusExpired, ""
			s.emit("checkout.session.expired", p.Session, nil, now)
		}
		if p.Settlement.Status != "" && s.due(p.Settlement.At, now) {
			s.completePayment(p, now)
		}
		for _, r := range p.Refunds {
			if r.Settlement.Status != "" && s.due(r.Settlement.At, now) {
				s.completeRefund(r, now)
			}
		}
	}
}

// due reports whether a time has passed. Otherwise Run continues at that time.
func (s *Server) due(at, now time.Time) bool {
	if at.After(now) && at.Before(s.next) {
		s.next = at
	}
	return !at.After(now)
}

// resource returns the session, intent, dispute or refund with this id, or nil.
func (p *payment) resource(id string) any {
	switch {
	case p.Session.ID == id:
		return p.Session
	case p.Intent != nil && p.Intent.ID == id:
		return p.Intent
	case p.Setup != nil && p.Setup.ID == id:
		return p.Setup
	case p.Dispute != nil && p.Dispute.ID == id:
		return p.Dispute
	}
	if r := find(p.Refunds, func(r *refund) bool { return r.Refund.ID == id }); r != nil {
		return r.Refund
	}
	return nil
}
