package payment

import (
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// What the room states.
const (
	SubjectCredited        = "payments.balance_credited"
	SubjectRefunded        = "payments.refunded"
	SubjectReconcileFailed = "payments.reconcile_failed"
)

// CreditedFact is the payload of payments.balance_credited.
type CreditedFact struct {
	Session     ids.PaymentSession `json:"payment_session_id"`
	Transfer    string             `json:"transfer_id"`
	AmountMinor money.Minor        `json:"amount_minor"`
	Currency    string             `json:"currency"`
}

// RefundedFact is the payload of payments.refunded.
type RefundedFact struct {
	Refund      ids.Refund  `json:"refund_id"`
	Route       Route       `json:"route"`
	AmountMinor money.Minor `json:"amount_minor"`
	Currency    string      `json:"currency"`
}

// FailedFact is the payload of payments.reconcile_failed.
type FailedFact struct {
	Session ids.PaymentSession `json:"payment_session_id"`
	Reason  string             `json:"reason"`
}
