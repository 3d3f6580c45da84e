// Package billing is what a tenant is told of its money and may spend of it:
// notices, limits, corrections by a person, and the hourly check of the books. It
// keeps what each tenant has been told, and nothing else: the ledger holds the
// balance, metering what it is used for, policy the limits. It moves no
// allocation; it asks Running to.
package billing

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/policies"
)

// Service is the room.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Ledger   *ledger.Service
	Metering *metering.Service
	// Payments is for who examines the books.
	Payments *payment.Service
	// Running is what uses money up; only whoever checks balances needs it.
	Running Running
	// Desired stores the limits of tenants as Policy objects. Only limits need it.
	Desired *desired.Store
	// Policy reads along the scopes of a tenant, and of a project where there is one.
	Policy func(tenant ids.Tenant, name string, project ids.Project) policies.View
	// Jobs look at a balance that a person has corrected.
	Jobs   *river.Client[pgx.Tx]
	Naming ids.Naming
	Hints  *hint.Bus
	Clock  clock.Clock
	// Figures shows what examining the books finds; nil where nobody asks.
	Figures *Figures
}

// Running is what a tenant's money is used for, in the room that knows it.
type Running interface {
	// Deplete lets go of everything of a tenant that costs or is about to, in tx,
	// and names it.
	Deplete(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (released []string, err error)
	// Committed names what Deplete would let go of, of each tenant that has any.
	Committed(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant][]string, error)
}

// urn names a tenant's money in facts: it is the tenant itself.
func (s *Service) urn(tenant ids.Tenant) string {
	return s.Naming.Name(tenant.String(), "", "tenant", tenant.String()).String()
}
