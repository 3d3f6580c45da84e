package payment_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
)

func (b *bundle) results(want map[string]string) {
	b.t.Helper()
	for result, status := range want {
		if n := b.count("SELECT count(*) FROM stripe_events WHERE result = $1 AND status = $2", result, status); n != 1 {
			b.t.Errorf("%d events came to %s (%s)", n, result, status)
		}
	}
}

// Threat: a tenant has a payment refunded on the pages of the provider and still uses the credit.
func TestRefundsOnThePagesOfTheProviderAreBooked(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"of our API version": "2023-10-16", "of another API version": "2025-01-27.acacia"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.credited()
			e := with(b.provider.refundsElsewhere(s, 100, payment.RefundSucceeded), map[string]any{"api_version": version})
			b.deliver(e)
			b.deliver(with(e, map[string]any{"id": "evt_again"}))
			b.processAll()
			b.expect(price - 100)
			b.results(map[string]string{"refunded_elsewhere: " + s.Payment: "processed", "settled": "processed"})
			all, err := b.api.Refunds(b.ours, b.caller.Tenant, ids.Refund{}, 10)
			must(t, err)
			if len(all) != 1 || all[0].RequestedBy != payment.ActorProvider || all[0].State != payment.Succeeded || all[0].Amount != 100 {
				t.Fatalf("listed as %+v", all)
			}
			// The bank of the card rejects the refund afterwards.
			b.deliver(with(b.provider.refundsElsewhere(s, 100, payment.RefundFailed), map[string]any{"api_version": version, "object.status": "failed"}))
			b.processAll()
			b.expect(price)
			if n := b.count("SELECT count(*) FROM audit_logs WHERE action = 'payment.refund' AND actor = $1", payment.ActorProvider); n != 1 {
				t.Errorf("%d audit rows", n)
			}
		})
	}
}

// A refund that is pending at the provider is recorded by the job, as our own refunds are.
func TestPendingRefundsOfTheProviderAreRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.credited()
	b.deliver(b.provider.refundsElsewhere(s, price, payment.RefundPending))
	b.processAll()
	b.expect(0)
	all, err := b.api.Refunds(b.ours, b.caller.Tenant, ids.Refund{}, 10)
	must(t, err)
	if len(all) != 1 || all[0].State != payment.Requested {
		t.Fatalf("listed as %+v", all)
	}
	b.provider.refundsElsewhere(s, price, payment.RefundSucceeded)
	must(t, b.send(all[0].ID))
	if r := b.refunded(all[0].ID); r.State != payment.Succeeded {
		t.Errorf("the refund is %s", r.State)
	}
	b.expect(0)
}

// Threat: a tenant uses credit whose payment the bank has withdrawn. The events may arrive in any sequence.
func TestDisputesAreBooked(t *testing.T) {
	t.Parallel()
	type stages []payment.DisputeStage
	for name, c := range map[string]struct {
		stages  stages
		balance money.Minor
		stage   payment.DisputeStage
	}{
		"an inquiry":                    {stages{payment.DisputeInquiry}, price, payment.DisputeInquiry},
		"open":                          {stages{payment.DisputeOpen}, 0, payment.DisputeOpen},
		"an inquiry that opens":         {stages{payment.DisputeInquiry, payment.DisputeOpen, payment.DisputeOpen}, 0, payment.DisputeOpen},
		"lost":                          {stages{payment.DisputeOpen, payment.DisputeLost}, 0, payment.DisputeLost},
		"won":                           {stages{payment.DisputeOpen, payment.DisputeWon}, price, payment.DisputeWon},
		"won, known only now":           {stages{payment.DisputeWon}, price, payment.DisputeWon},
		"won, and the opening is late":  {stages{payment.DisputeOpen, payment.DisputeWon, payment.DisputeOpen}, price, payment.DisputeWon},
		"lost, and then won":            {stages{payment.DisputeLost, payment.DisputeWon}, price, payment.DisputeWon},
		"lost, and the inquiry is late": {stages{payment.DisputeLost, payment.DisputeInquiry}, 0, payment.DisputeLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.credited()
			for _, stage := range c.stages {
				b.deliver(b.provider.disputed("du_x", s, price, stage))
				b.processAll()
			}
			b.expect(c.balance)
			all, err := b.api.Disputes(b.ours, b.caller.Tenant, "", 10)
			must(t, err)
			if len(all) != 1 || all[0].Stage != c.stage || all[0].Session != s.ID || all[0].Amount != price {
				t.Fatalf("listed as %+v", all)
			}
			b.events() // each agrees with the contract
			// What the bank has withdrawn cannot be refunded as well.
			if _, err := b.refund(payment.Unspent, price, nil); c.balance == 0 {
				wantCode(t, "a refund of a disputed payment", err, errs.RefundExceedsPayment)
			} else {
				must(t, err)
			}
		})
	}
}

// An event about a payment that is not credited yet is repeated, and one about a payment of another
// product on the same account has no effect.
func TestDisputesThatComeBeforeTheCredit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.begin(price)
	paid := b.provider.pay(s, false)
	s.Payment = b.provider.checkoutOf(s).Payment
	early := b.provider.disputed("du_x", s, price, payment.DisputeOpen)
	b.deliver(early)
	wantCode(t, "a dispute before the credit", b.process(early["id"].(string)), errs.Conflict)
	b.deliver(paid)
	must(t, b.process(paid["id"].(string)))
	b.expect(price)
	must(t, b.process(early["id"].(string)))
	b.expect(0)
	b.deliver(b.provider.disputed("du_y", payment.Session{Payment: "pi_of_another_product"}, price, payment.DisputeOpen))
	b.processAll()
	b.results(map[string]string{"disputed: open": "processed", "not_ours": "ignored"})
	b.expect(0)
}

// Our refund is in progress when an operator refunds the same money at the provider. The provider rejects
// ours, and then theirs is recorded.
func TestRefundsOfBothSides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.credited()
	r, err := b.refund(payment.Unspent, price, nil)
	must(t, err)
	theirs := b.provider.refundsElsewhere(s, price, payment.RefundSucceeded)
	b.deliver(theirs)
	wantCode(t, "theirs, while ours is in progress", b.process(theirs["id"].(string)), errs.Conflict)
	b.provider.stage = payment.RefundFailed
	must(t, b.send(r.ID))
	must(t, b.process(theirs["id"].(string)))
	b.expect(0)
	b.deliver(b.provider.disputed("du_x", s, 1, "of a later version"))
	b.deliver(with(b.refundEvent(r, "succeeded"), map[string]any{"object.amount": 101}))
	b.processAll()
	b.results(map[string]string{"disagrees: amount": "failed", "disagrees: refund": "failed"})
	b.expect(0)
}

// The bank withdraws the whole payment, also if a part was refunded before.
func TestDisputesOfARefundedPaymentAreBooked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.credited()
	r, err := b.refund(payment.Unspent, 100, nil)
	must(t, err)
	must(t, b.send(r.ID))
	b.deliver(b.provider.disputed("du_x", s, price, payment.DisputeOpen))
	b.processAll()
	books := &ledger.Service{DB: b.db}
	if got, _, err := books.Balance(t.Context(), b.db, b.caller.Tenant); err != nil || got != -100 {
		t.Errorf("balance %d, %v", got, err)
	}
	b.deliver(b.provider.disputed("du_x", s, price, payment.DisputeWon))
	b.processAll()
	b.expect(price - 100)
}
