package serve

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/inventory"
)

// How many connections each role may hold. Together they stay below the 60 of
// the private cluster; a bigger database takes more replicas, not bigger pools.
const (
	apiConns       = 16
	nodeConns      = 10
	reconcileConns = 4
	workConns      = 16
	relayConns     = 4
)

// rooms is everything that one process's roles work with.
type rooms struct {
	pools map[Role]*pgxpool.Pool
	hints *hint.Bus

	policy       policy
	desired      *desired.Store
	observed     *observed.Store
	identity     *identity.Service
	provider     *oidc.Provider // nil: nobody signs people in
	catalog      *catalog.Service
	ledger       *ledger.Service
	audited      *audit.Service
	metering     *metering.Service
	certificates *secret.Certificates
	inventory    *inventory.Service
	allocations  *allocation.Service
	tasks        *nodetask.Store
	jobs         *river.Client[pgx.Tx]

	authority *pki.Local
	keys      *pki.Keyring
}

func openPools(ctx context.Context, c Config) (map[Role]*pgxpool.Pool, error) {
	sizes := map[Role]int32{RoleAPI: apiConns, RoleNode: nodeConns, RoleReconcile: reconcileConns, RoleWork: workConns, RoleRelay: relayConns}
	pools := map[Role]*pgxpool.Pool{}
	for _, r := range c.Roles {
		pool, err := pg.Open(ctx, c.DatabaseURL, "gpuaas-"+string(r), sizes[r])
		if err != nil {
			closeAll(pools)
			return nil, err
		}
		pools[r] = pool
	}
	return pools, nil
}

func closeAll(pools map[Role]*pgxpool.Pool) {
	for _, p := range pools {
		p.Close()
	}
}

// pool is the pool of a role, or of the first role that runs here: a room that
// two roles share works on either.
func (r *rooms) pool(role Role) *pgxpool.Pool {
	if p, ok := r.pools[role]; ok {
		return p
	}
	for _, other := range AllRoles() {
		if p, ok := r.pools[other]; ok {
			return p
		}
	}
	return nil
}

// prepare brings the schema up to date before any role serves.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	seal := (&ledger.Service{DB: pool}).Seal
	return jobs.KeepInOrder(ctx, pool, seal)
}

func furnish(ctx context.Context, c Config, pools map[Role]*pgxpool.Pool, hints *hint.Bus) (*rooms, error) {
	r := &rooms{pools: pools, hints: hints}
	var err error
	if r.authority, err = pki.Open(filepath.Join(c.StateDir, "ca"), c.Clock); err != nil {
		return nil, err
	}
	if r.keys, err = pki.OpenKeyring(filepath.Join(c.StateDir, "keys")); err != nil {
		return nil, err
	}
	api, work, node := r.pool(RoleAPI), r.pool(RoleWork), r.pool(RoleNode)

	r.policy = policy{&policies.Client{DB: r.pool(RoleReconcile), Hints: hints, Log: c.Log}}
	if _, err := r.policy.client.Refresh(ctx); err != nil {
		return nil, err
	}
	r.desired = &desired.Store{DB: api, Hints: hints, Check: checkLater()}
	r.observed = &observed.Store{DB: node}
	if r.identity, err = r.people(c); err != nil {
		return nil, err
	}
	r.catalog = &catalog.Service{DB: api, Clock: c.Clock, Hints: hints}
	r.ledger = &ledger.Service{DB: work}
	r.audited = &audit.Service{DB: work}
	r.metering = &metering.Service{DB: api}
	r.certificates = &secret.Certificates{DB: node}
	r.inventory = &inventory.Service{DB: api, Hints: hints}
	r.tasks = &nodetask.Store{DB: node, Signer: r.keys, Hints: hints, Clock: c.Clock}
	r.allocations = &allocation.Service{
		DB: api, Desired: r.desired, Inventory: r.inventory, Catalog: r.catalog, Identity: r.identity,
		Limits: r.policy.request, Naming: c.naming(), Hints: hints, Clock: c.Clock,
	}
	if r.jobs, err = r.jobClient(c); err != nil {
		return nil, err
	}
	r.identity.Jobs = r.jobs
	return r, nil
}

// checkLater validates what the API writes by the schema of its kind. The schema
// is compiled by the first such write: most servers see none, and it costs memory.
func checkLater() func(desired.Object) error {
	compile := sync.OnceValues(validate.New)
	return func(o desired.Object) error {
		c, err := compile()
		if err != nil {
			return err
		}
		return c.Check(o)
	}
}

// jobClient works where this process has that role, and only enqueues elsewhere.
func (r *rooms) jobClient(c Config) (*river.Client[pgx.Tx], error) {
	if !c.has(RoleWork) {
		return jobs.NewClient(r.pool(RoleReconcile), nil, c.Log)
	}
	pool := r.pool(RoleWork)
	deps := &jobs.Deps{
		DB: pool, Desired: r.desired, Observed: r.observed, Tasks: r.tasks, Allocations: r.allocations, Inventory: r.inventory,
		Catalog: r.catalog, Policies: r.policy.client, Metering: r.metering, Ledger: r.ledger, Audit: r.audited, Hints: r.hints, Log: c.Log,
		Window: r.policy.window,
	}
	client, err := jobs.NewClient(pool, deps, c.Log)
	if err != nil {
		return nil, fmt.Errorf("making the workers: %w", err)
	}
	return client, nil
}
