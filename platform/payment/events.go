package payment

import (
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Subjects of the events that this package emits.
const (
	SubjectCredited        = "payments.balance_credited"
	SubjectRefunded        = "payments.refunded"
	SubjectReconcileFailed = "payments.reconcile_failed"
	SubjectDisputed        = "payments.disputed"
)

// CreditedEvent is the payload of payments.balance_credited.
type CreditedEvent struct {
	Session     ids.PaymentSession `json:"payment_session_id"`
	Transfer    string             `json:"transfer_id"`
	AmountMinor money.Minor        `json:"amount_minor"`
	Currency    string             `json:"currency"`
}

// RefundedEvent is the payload of payments.refunded.
type RefundedEvent struct {
	Refund      ids.Refund  `json:"refund_id"`
	Route       Route       `json:"route"`
	AmountMinor money.Minor `json:"amount_minor"`
	Currency    string      `json:"currency"`
}

// DisputedEvent is the payload of payments.disputed.
type DisputedEvent struct {
	Dispute     string       `json:"dispute_id"`
	Stage       DisputeStage `json:"stage"`
	Reason      string       `json:"reason"`
	AmountMinor money.Minor  `json:"amount_minor"`
	Currency    string       `json:"currency"`
}

// FailedEvent is the payload of payments.reconcile_failed.
type FailedEvent struct {
	Session ids.PaymentSession `json:"payment_session_id"`
	Reason  string             `json:"reason"`
}
