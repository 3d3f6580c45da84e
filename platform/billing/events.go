package billing

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Subjects of the events that this package emits.
const (
	SubjectLowBalance = "billing.low_balance_warning"
	SubjectPending    = "billing.auto_release_pending"
	SubjectCleared    = "billing.auto_release_cleared"
	SubjectDepleted   = "billing.balance_depleted"
	SubjectAdjusted   = "billing.balance_adjusted"
)

// LowBalanceEvent is the payload of billing.low_balance_warning. Each payload also
// carries urn, tenant_id and project_id, which the outbox adds.
type LowBalanceEvent struct {
	BalanceMinor   money.Minor `json:"balance_minor"`
	ThresholdMinor money.Minor `json:"threshold_minor"`
	BurnMinor      money.Minor `json:"burn_per_hour_minor"`
	RunwayMinutes  *int64      `json:"runway_minutes,omitempty"` // missing while nothing is burnt
	Currency       string      `json:"currency"`
}

// ReleasePendingEvent is the payload of billing.auto_release_pending.
type ReleasePendingEvent struct {
	BalanceMinor  money.Minor `json:"balance_minor"`
	RunwayMinutes int64       `json:"runway_minutes"`
	ReleasesAt    time.Time   `json:"releases_at"`
	Allocations   []string    `json:"allocation_ids"` // that will be released
	Currency      string      `json:"currency"`
}

// ReleaseClearedEvent is the payload of billing.auto_release_cleared.
type ReleaseClearedEvent struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
}

// DepletedEvent is the payload of billing.balance_depleted.
type DepletedEvent struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
	Allocations  []string    `json:"allocation_ids"` // released for it
}

// AdjustedEvent is the payload of billing.balance_adjusted.
type AdjustedEvent struct {
	Transfer    string      `json:"transfer_id"`
	User        string      `json:"user_id"`
	AmountMinor money.Minor `json:"amount_minor"` // below zero for a debit
	Currency    string      `json:"currency"`
	Reason      string      `json:"reason"`
	AdjustedBy  string      `json:"adjusted_by"`
}

// queueNotice emits a balance notice. The sequence belongs to the tenant, so a consumer can drop a late
// warning that arrives after the credit that resolved it.
func (s *Service) queueNotice(b *pgx.Batch, tenant ids.Tenant, sequence int64, subject string, payload any) {
	event.Queue(b, event.Draft{
		Stream: event.StreamBilling, Subject: subject, Aggregate: "balance:" + tenant.String(), Sequence: sequence,
		Tenant: tenant, URN: s.urn(tenant), Payload: payload,
	})
}
