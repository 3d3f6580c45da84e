package billing

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
)

// The subjects that this room states facts under.
const (
	SubjectLowBalance = "billing.low_balance_warning"
	SubjectPending    = "billing.auto_release_pending"
	SubjectCleared    = "billing.auto_release_cleared"
	SubjectDepleted   = "billing.balance_depleted"
	SubjectAdjusted   = "billing.balance_adjusted"
)

// LowBalanceFact is the payload of billing.low_balance_warning. Each payload also
// carries urn, tenant_id and project_id, which the outbox adds.
type LowBalanceFact struct {
	BalanceMinor   money.Minor `json:"balance_minor"`
	ThresholdMinor money.Minor `json:"threshold_minor"`
	BurnMinor      money.Minor `json:"burn_per_hour_minor"`
	RunwayMinutes  *int64      `json:"runway_minutes,omitempty"` // missing while nothing is burnt
	Currency       string      `json:"currency"`
}

// PendingFact is the payload of billing.auto_release_pending.
type PendingFact struct {
	BalanceMinor  money.Minor `json:"balance_minor"`
	RunwayMinutes int64       `json:"runway_minutes"`
	ReleasesAt    time.Time   `json:"releases_at"`
	Allocations   []string    `json:"allocation_ids"` // that will be released
	Currency      string      `json:"currency"`
}

// ClearedFact is the payload of billing.auto_release_cleared.
type ClearedFact struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
}

// DepletedFact is the payload of billing.balance_depleted.
type DepletedFact struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
	Allocations  []string    `json:"allocation_ids"` // released for it
}

// AdjustedFact is the payload of billing.balance_adjusted.
type AdjustedFact struct {
	Transfer    string      `json:"transfer_id"`
	User        string      `json:"user_id"`
	AmountMinor money.Minor `json:"amount_minor"` // below zero where it was taken
	Currency    string      `json:"currency"`
	Reason      string      `json:"reason"`
	AdjustedBy  string      `json:"adjusted_by"`
}

// queueTold states what a tenant is told. The sequence is the tenant's own, so
// that a warning which comes late does not follow the credit that answered it.
func (s *Service) queueTold(b *pgx.Batch, tenant ids.Tenant, sequence int64, subject string, payload any) {
	event.Queue(b, event.Fact{
		Stream: event.StreamBilling, Subject: subject, Aggregate: "balance:" + tenant.String(), Sequence: sequence,
		Tenant: tenant, URN: s.urn(tenant), Payload: payload,
	})
}
