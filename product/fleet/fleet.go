package fleet

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/slots"
)

// Service owns nodes, their operator holds, their drains and their enrolment. It includes the slots
// of the nodes, because most changes of a node change its slots in the same transaction.
type Service struct {
	*slots.Service
	// Identity stores the idempotency keys of operators' changes. Naming is the first part of resource
	// names.
	Identity *identity.Service
	Naming   ids.Naming
	// Grace returns how long tenants may stay on a draining node if the operator gives no deadline:
	// node.drain_grace_minutes.
	Grace func(node string) time.Duration
	Clock clock.Clock
	// Inspections returns how many operators must have inspected a slot before it is free without a proof:
	// node.inspection_approvals.
	Inspections func() int
	// TokenLife returns how long an enrolment token is valid.
	TokenLife func() time.Duration
	// Jobs inserts the jobs of the service; services.Enqueue sets it.
	Jobs *river.Client[pgx.Tx]
	// Certificates revokes the certificates of nodes.
	Certificates *secret.Certificates
}
