package payment

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// For reports in any sequence: a credit stays, a claim that agrees leads to it, and no credit happens
// without one.
func TestNextDoesNotMindTheOrder(t *testing.T) {
	t.Parallel()
	begun := Session{ID: ids.From[ids.PaymentSession](uuid.New()), State: Initiated, Amount: 5, Currency: "EUR", Customer: "cus", ProviderID: "cs"}
	paid := Claim{Checkout: Checkout{ID: "cs", Mode: ModePayment, Reference: begun.ID.String(), Session: begun.ID.String(), Customer: "cus", Payment: "pi", Amount: 5, Currency: "EUR", Stage: StageComplete, Paid: PaidYes}}
	rapid.Check(t, func(t *rapid.T) {
		s, agreed := begun, false
		for range rapid.IntRange(0, 12).Draw(t, "claims") {
			c := paid
			c.Stage = rapid.SampledFrom([]Stage{StageOpen, StageComplete, StageExpired}).Draw(t, "stage")
			c.Paid = rapid.SampledFrom([]Paid{PaidYes, PaidLater, PaidNever, PaidNone}).Draw(t, "paid")
			c.Amount = rapid.SampledFrom([]money.Minor{5, 5, 6}).Draw(t, "amount")
			was := s.State
			s.State, s.Reason = Next(s, c)
			agreed = agreed || c.Stage == StageComplete && c.Paid == PaidYes && c.Amount == 5
			switch {
			case was == Credited && s.State != Credited:
				t.Fatalf("a credit was reversed by %+v", c)
			case agreed != (s.State == Credited):
				t.Fatalf("agreed %v, and it is %s after %+v", agreed, s.State, c)
			case was != Initiated && s.State == Initiated:
				t.Fatalf("begins again after %+v", c)
			case !s.State.Valid():
				t.Fatalf("%q is no state", s.State)
			}
		}
	})
}
