// Package billing evaluates the balance of each tenant: balance notices, spend limits, adjustments by an
// operator, and the hourly check of the books. It owns the notice state of each tenant and nothing else:
// the ledger owns the balance, metering the usage, policies the limits. It releases no allocation
// itself; it calls Running.
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
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/policies"
)

// Service implements the use cases of billing.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Ledger   *ledger.Service
	Metering *metering.Service
	// Payments is used only to check the books.
	Payments *payment.Service
	// Running releases and lists the consumers of money. Only the process that checks balances needs it.
	Running Running
	// Files deletes the files of tenants without a balance, and Catalog has the time until then. Only the process that checks
	// balances needs them.
	Files   Files
	Catalog *catalog.Service
	// Desired stores the limits of tenants as Policy objects. Only limits need it.
	Desired  *desired.Store
	Policies *policies.Client
	// Policy reads along the scopes of a tenant, and of a project where there is one.
	Policy func(ids.Tenant, ids.Project) policies.View
	// Jobs queues the check of the balance after an adjustment.
	Jobs   *river.Client[pgx.Tx]
	Naming ids.Naming
	Hints  *hint.Bus
	Clock  clock.Clock
	// Metrics exports the result of the check of the books. It may be nil.
	Metrics *Metrics
}

// Running is the port to the package that owns the resources that a tenant pays for.
type Running interface {
	// Deplete releases everything of a tenant that costs money or is about to, in tx, and returns its
	// names.
	Deplete(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (released []string, err error)
	// Committed returns the names of all resources that Deplete would release, for each tenant that has
	// any.
	Committed(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant][]string, error)
}

// urn names a tenant's money in facts: it is the tenant itself.
func (s *Service) urn(tenant ids.Tenant) string {
	return s.Naming.Name(tenant.String(), "", "tenant", tenant.String()).String()
}
