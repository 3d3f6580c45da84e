package ledger

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
)

// SubjectDepleted is stated when a tenant's balance no longer pays for what runs.
const SubjectDepleted = "billing.balance_depleted"

// DepletedFact is the payload of billing.balance_depleted.
type DepletedFact struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
	Allocations  []string    `json:"allocation_ids"` // released for it
}

// QueueDepleted states that a tenant has run out. The sequence rises with each
// pass that charges.
func QueueDepleted(b *pgx.Batch, tenant ids.Tenant, urn string, sequence int64, f DepletedFact) {
	event.Queue(b, event.Fact{
		Stream: event.StreamBilling, Subject: SubjectDepleted, Aggregate: "tenant:" + tenant.String(),
		Sequence: sequence, Tenant: tenant, URN: urn, Payload: f,
	})
}
