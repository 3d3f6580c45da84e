package stripe

import (
	"time"
)

// pass does what time alone does: pages end, payments and refunds settle.
func (s *Server) pass(now time.Time) {
	for _, r := range s.state.sessions.rows {
		if r.Status == open && now.Unix() >= r.ExpiresAt {
			s.expire(r, now)
		}
	}
	for _, r := range s.state.intents.rows {
		if r.SettleTo != "" && !now.Before(r.SettleAt) {
			s.settle(r, now)
		}
	}
	for _, r := range s.state.refunds.rows {
		if r.SettleTo != "" && !now.Before(r.SettleAt) {
			s.settleRefund(r, now)
		}
	}
}

// nextPass is when pass has something to do, or a long time.
func (s *Server) nextPass(now time.Time) time.Time {
	next := now.Add(longest)
	for _, r := range s.state.sessions.rows {
		if at := time.Unix(r.ExpiresAt, 0); r.Status == open && at.Before(next) {
			next = at
		}
	}
	for _, r := range s.state.intents.rows {
		if r.SettleTo != "" && r.SettleAt.Before(next) {
			next = r.SettleAt
		}
	}
	for _, r := range s.state.refunds.rows {
		if r.SettleTo != "" && r.SettleAt.Before(next) {
			next = r.SettleAt
		}
	}
	return next
}

func (s *Server) expire(r *session, now time.Time) {
	r.Status = expired
	s.state.sessions.put(r)
	s.emit("checkout.session.expired", s.showSession(r), nil, now)
}

// pay asks the bank behind a card for the amount of an open page. A card that is
// refused leaves the page open for another.
func (s *Server) pay(r *session, with card, now time.Time) *refusal {
	month, year, no := with.check(now)
	if no != nil {
		return no
	}
	i := s.intentOf(r, now)
	came := with.outcome()
	c := &charge{
		ID: named("ch_3"), Created: now.Unix(), Intent: i.ID, Customer: i.Customer, Amount: i.Amount, Currency: i.Currency, Text: i.Text,
		Metadata: i.Metadata, Payer: with.email, Brand: brandOf(with.number), Last4: with.number[len(with.number)-4:],
		ExpMonth: month, ExpYear: year, Refunds: came.refunds,
	}
	i.Charge = c.ID
	s.state.charges.put(c)
	s.state.intents.put(i)
	switch {
	case came.code != "":
		no := refuseCard("", came.code, came.decline, came.message)
		s.decline(i, c, no, now)
		return no
	case came.later != "":
		s.begin(r, i, c, came.later, now)
	default:
		s.finish(i, c, now)
		r.Status, r.PaymentStatus = complete, paid
		s.state.sessions.put(r)
		s.emit("checkout.session.completed", s.showSession(r), nil, now)
	}
	if came.disputed {
		c.Disputed = true
		s.state.charges.put(c)
		s.emit("charge.dispute.created", c.showDispute(now), nil, now)
	}
	return nil
}

// intentOf is made by the first card, and tried again by the next.
func (s *Server) intentOf(r *session, now time.Time) *intent {
	if i, ok := s.state.intents.get(r.Intent); ok {
		return i
	}
	i := s.state.intents.put(&intent{
		ID: named("pi_3"), Created: now.Unix(), Session: r.ID, Amount: r.Amount, Currency: r.Currency, Customer: r.Customer, Text: r.IntentText,
		Metadata: r.IntentMetadata, Status: needsMethod,
	})
	r.Intent = i.ID
	s.state.sessions.put(r)
	s.emit("payment_intent.created", s.showIntent(i), nil, now)
	return i
}

func (s *Server) decline(i *intent, c *charge, no *refusal, now time.Time) {
	no.Charge = c.ID
	c.Status, c.Problem = failed, no
	i.Status, i.Problem = needsMethod, no
	s.state.charges.put(c)
	s.state.intents.put(i)
	s.emit("charge.failed", c.show(), nil, now)
	s.emit("payment_intent.payment_failed", s.showIntent(i), nil, now)
}

// finish is a payment that has come.
func (s *Server) finish(i *intent, c *charge, now time.Time) {
	c.Status, i.Status, i.Received, i.Problem = succeeded, succeeded, i.Amount, nil
	s.state.charges.put(c)
	s.state.intents.put(i)
	s.emit("charge.succeeded", c.show(), nil, now)
	s.emit("payment_intent.succeeded", s.showIntent(i), nil, now)
}

// begin is a payment that takes its time. The page is complete and nothing is paid.
func (s *Server) begin(r *session, i *intent, c *charge, to string, now time.Time) {
	c.Status, i.Status, i.Problem = pending, processing, nil
	i.SettleTo, i.SettleAt = to, now.Add(s.cfg.Settle)
	r.Status = complete
	s.state.charges.put(c)
	s.state.intents.put(i)
	s.state.sessions.put(r)
	s.emit("charge.pending", c.show(), nil, now)
	s.emit("payment_intent.processing", s.showIntent(i), nil, now)
	s.emit("checkout.session.completed", s.showSession(r), nil, now)
}

func (s *Server) settle(i *intent, now time.Time) {
	to := i.SettleTo
	i.SettleTo, i.SettleAt = "", time.Time{}
	c, charged := s.state.charges.get(i.Charge)
	r, asked := s.state.sessions.get(i.Session)
	if !charged || !asked { // a row of each is made together with the intent
		return
	}
	if to == failed {
		s.decline(i, c, refuseCard("", "card_declined", "generic_decline", declined), now)
		s.emit("checkout.session.async_payment_failed", s.showSession(r), nil, now)
		return
	}
	s.finish(i, c, now)
	r.PaymentStatus = paid
	s.state.sessions.put(r)
	s.emit("checkout.session.async_payment_succeeded", s.showSession(r), nil, now)
}
