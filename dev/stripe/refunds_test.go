package stripe_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
)

func TestRefundsAddUpToTheCharge(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	first, err := b.api.Refunds.New(&stripe.RefundParams{
		PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(700)), Reason: new("requested_by_customer"), Metadata: map[string]string{"refund": "r1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.api.Refunds.Get(first.ID, nil)
	if err != nil || got.Amount != 700 || got.Status != stripe.RefundStatusSucceeded || got.Metadata["refund"] != "r1" || got.PaymentIntent.ID != s.PaymentIntent.ID ||
		got.Reason != stripe.RefundReasonRequestedByCustomer || got.Currency != stripe.CurrencyEUR {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(1801))})
	wantError(t, err, 400, stripe.ErrorTypeInvalidRequest, "", "amount")
	rest, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID})
	if err != nil || rest.Amount != 1800 {
		t.Errorf("%+v, %v", rest, err)
	}
	_, err = b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID})
	wantError(t, err, 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeChargeAlreadyRefunded, "")
	b.hook.until(t, stripe.EventTypeRefundCreated, stripe.EventTypeRefundCreated)
	list := b.api.Refunds.List(&stripe.RefundListParams{PaymentIntent: &s.PaymentIntent.ID})
	var ids []string
	for list.Next() {
		ids = append(ids, list.Refund().ID)
	}
	if list.Err() != nil || !slices.Equal(ids, []string{rest.ID, first.ID}) {
		t.Errorf("%v, %v; want the newest first", ids, list.Err())
	}
}

// INV-32: concurrent refunds never exceed the payment.
func TestINV32RefundsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, devstripe.Config{})
	s := b.paid(t, devstripe.CardPaid)
	var sum atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID, Amount: new(int64(300))})
			if err == nil {
				sum.Add(r.Amount)
			} else if _, ok := errors.AsType[*stripe.Error](err); !ok {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sum.Load() != 2400 {
		t.Errorf("%d was refunded of 2500, in parts of 300", sum.Load())
	}
}

// A refund may be pending first, and may fail afterwards: then the charge bears
// another one.
func TestRefundsThatTakeTheirTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card, fault  string
		first, after stripe.RefundStatus
	}{
		"a card whose refunds are slow": {"4000000000007726", "", "pending", "succeeded"},
		"a card whose refunds fail":     {"4000000000005126", "", "succeeded", "failed"},
		"slow on demand":                {devstripe.CardPaid, "refund_pending", "pending", "succeeded"},
		"failing on demand":             {devstripe.CardPaid, "refund_failed", "succeeded", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &moved{}
			b := setup(t, devstripe.Config{Clock: m.clock(), CompleteAfter: time.Minute})
			s := b.paid(t, c.card)
			if c.fault != "" {
				b.arm(t, c.fault, 1)
			}
			made, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID})
			if err != nil || made.Status != c.first {
				t.Fatalf("%+v, %v", made, err)
			}
			m.wait(2 * time.Minute)
			got, err := b.api.Refunds.Get(made.ID, nil)
			if err != nil || got.Status != c.after || (got.FailureReason != "") != (c.after == "failed") {
				t.Errorf("%+v, %v", got, err)
			}
			for _, e := range b.hook.until(t, stripe.EventTypeChargeRefundUpdated, stripe.EventTypeRefundUpdated) {
				if e.Type == stripe.EventTypeRefundUpdated && (e.GetObjectValue("status") != string(c.after) || e.GetPreviousValue("status") != string(c.first)) {
					t.Errorf("%+v", e.Data.Object)
				}
			}
			if c.after == "failed" {
				if again, err := b.api.Refunds.New(&stripe.RefundParams{PaymentIntent: &s.PaymentIntent.ID}); err != nil || again.Amount != 2500 {
					t.Errorf("%+v, %v", again, err)
				}
			}
		})
	}
}
