package stripe

import (
	"net/http"
	"strconv"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (c *call) createRefund() (object, *refusal) {
	paidBy, no := c.refundable()
	if no != nil {
		return nil, no
	}
	tags, no := c.metadata("")
	if no != nil {
		return nil, no
	}
	if no := c.among("reason", "duplicate", "fraudulent", "requested_by_customer"); no != nil {
		return nil, no
	}
	left := paidBy.Amount - paidBy.Refunded
	amount := left
	if c.form.Get("amount") != "" {
		if amount, no = c.whole("amount"); no != nil {
			return nil, no
		}
	}
	switch {
	case left == 0:
		return nil, invalid("", "charge_already_refunded", "Charge "+paidBy.ID+" has already been refunded.")
	case amount > left:
		return nil, invalid("amount", "", "Refund amount ("+shown(paidBy.Currency, amount)+") is greater than unrefunded amount on charge ("+shown(paidBy.Currency, left)+")")
	}
	r := &refund{
		ID: named("re_3"), Created: c.now.Unix(), Charge: paidBy.ID, Intent: paidBy.Intent, Amount: amount, Currency: paidBy.Currency,
		Reason: c.form.Get("reason"), Metadata: tags, Status: succeeded,
	}
	c.delay(r, paidBy)
	before := object{"amount_refunded": paidBy.Refunded, "refunded": false}
	paidBy.Refunded += amount
	c.state.charges.put(paidBy)
	c.state.refunds.put(r)
	c.emit("charge.refunded", paidBy.show(), before, c.now)
	c.emit("refund.created", r.show(), nil, c.now)
	return r.show(), nil
}

// delay decides how a refund goes: by its card, or by a fault.
func (c *call) delay(r *refund, paidBy *charge) {
	way := paidBy.Refunds
	switch {
	case c.strike(faultRefundPending):
		way = refundsLater
	case c.strike(faultRefundFailed):
		way = refundsFail
	}
	switch way {
	case refundsLater:
		r.Status, r.SettleTo = pending, succeeded
	case refundsFail:
		r.SettleTo = failed
	default:
		return
	}
	r.SettleAt = c.now.Add(c.cfg.Settle)
}

// refundable finds the charge that is meant.
func (c *call) refundable() (*charge, *refusal) {
	id, through := c.form.Get("charge"), c.form.Get("payment_intent")
	param, kind, named := "charge", "charge", id
	if through != "" {
		param, kind, named = "payment_intent", "payment_intent", through
		i, ok := c.state.intents.get(through)
		if !ok {
			return nil, asParam(missing(param, kind, named))
		}
		if id = i.Charge; id == "" {
			return nil, invalid(param, "payment_intent_unexpected_state", "This PaymentIntent has no successful charge to refund.")
		}
	}
	r, ok := c.state.charges.get(id)
	switch {
	case named == "":
		return nil, invalid("charge", "parameter_missing", "One of these parameters is needed: charge, payment_intent.")
	case !ok:
		return nil, asParam(missing(param, kind, named))
	case r.Status != succeeded:
		return nil, invalid(param, "payment_intent_unexpected_state", "Only a charge that has succeeded can be refunded; this one is "+r.Status+".")
	}
	return r, nil
}

// asParam is how the API says of a parameter, not of a path, that nothing has
// this id.
func asParam(no *refusal) *refusal {
	no.Status = http.StatusBadRequest
	return no
}

func (c *call) getRefund() (object, *refusal) {
	r, ok := c.state.refunds.get(c.id)
	if !ok {
		return nil, missing("refund", "refund", c.id)
	}
	return r.show(), nil
}

func (c *call) listRefunds() (object, *refusal) {
	id, through := c.form.Get("charge"), c.form.Get("payment_intent")
	return listed(c, "/v1/refunds", c.state.refunds.rows, func(r *refund) int64 { return r.Created },
		func(r *refund) bool { return (id == "" || id == r.Charge) && (through == "" || through == r.Intent) }, (*refund).show)
}

// settleRefund ends the wait of a refund. One that fails gives the money back to
// the charge, as if it had never been asked for.
func (s *Server) settleRefund(r *refund, now time.Time) {
	before := object{"status": r.Status}
	r.Status, r.SettleTo, r.SettleAt = r.SettleTo, "", time.Time{}
	if r.Status == failed {
		r.Problem = "lost_or_stolen_card"
		if c, ok := s.state.charges.get(r.Charge); ok {
			c.Refunded -= r.Amount
			s.state.charges.put(c)
		}
	}
	s.state.refunds.put(r)
	s.emit("charge.refund.updated", r.show(), before, now)
	s.emit("refund.updated", r.show(), before, now)
	if r.Status == failed {
		s.emit("refund.failed", r.show(), before, now)
	}
}
