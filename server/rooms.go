package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/reconciler"
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

// Who migrates holds a lock on one connection, and works on others.
const ownerConns = 4

// rooms is everything that one process's roles work with.
type rooms struct {
	pools map[Role]*pgxpool.Pool
	sets  map[Role]*set
	hints *hint.Bus

	policy policy
	drift  *reconciler.Metrics
	// taskFigures are of all roles that run here together.
	taskFigures *nodetask.Metrics

	jobs  *river.Client[pgx.Tx]       // of the workers, or of the loop
	paces func(context.Context) error // has the workers follow the policies; nil without workers
	queue *river.Client[pgx.Tx]       // of the API

	custody  keystore.KeyStores
	binaries *nodeapi.Binaries
	releases releases
	entrance *entrance
	till     till
}

// set is the rooms as one role works in them: with its rights to the database,
// and in the API's with the scope of each request.
type set struct {
	db pg.Pool

	desired      *desired.Store
	observed     *observed.Store
	identity     *identity.Service
	catalog      *catalog.Service
	ledger       *ledger.Service
	audited      *audit.Service
	metering     *metering.Service
	certificates *secret.Certificates
	inventory    *nodehealth.Service
	releases     *agentrelease.Store
	allocations  *allocation.Service
	billing      *billing.Service
	payments     *payment.Service
	tasks        *nodetask.Store
	changes      *change.Service
}

func openPools(ctx context.Context, c Config) (map[Role]*pgxpool.Pool, error) {
	sizes := map[Role]int32{RoleAPI: apiConns, RoleNode: nodeConns, RoleReconcile: reconcileConns, RoleWork: workConns, RoleRelay: relayConns}
	pools := map[Role]*pgxpool.Pool{}
	for _, r := range c.Roles {
		url, own := c.DatabaseURLs[r]
		if !own {
			url = c.DatabaseURL
		}
		pool, err := pg.OpenAs(ctx, url, r.DatabaseRole(), "gpuaas-"+string(r), sizes[r])
		if err == nil {
			pools[r] = pool
			err = pg.Examine(ctx, pool)
		}
		if err != nil {
			closeAll(pools)
			return nil, fmt.Errorf("connecting as %s: %w", r.DatabaseRole(), err)
		}
	}
	return pools, nil
}

func closeAll(pools map[Role]*pgxpool.Pool) {
	for _, p := range pools {
		p.Close()
	}
}

// pool is the pool of a role, or of the first role that runs here: for what every
// role may read.
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

// prepare brings schema and rights up to date before any role serves. It is all
// that the owner does.
func prepare(ctx context.Context, c Config) error {
	owner, err := pg.Open(ctx, c.DatabaseURL, "gpuaas-migrate", ownerConns)
	if err != nil {
		return err
	}
	defer owner.Close()
	if err := migrations.Up(ctx, owner); err != nil {
		return err
	}
	return jobs.MakePartitions(ctx, owner)
}

func furnish(ctx context.Context, c Config, pools map[Role]*pgxpool.Pool, hints *hint.Bus, url func() string) (*rooms, error) {
	r := &rooms{pools: pools, sets: map[Role]*set{}, hints: hints, drift: reconciler.NewMetrics(), taskFigures: nodetask.NewMetrics()}
	var err error
	if r.custody, err = keystore.Open(ctx, c.Keys, c.StateDir, c.Clock); err != nil {
		return nil, err
	}
	r.binaries = &nodeapi.Binaries{Dir: c.agentDir()}
	if r.releases, err = openReleases(c); err != nil {
		return nil, err
	}
	if r.entrance, err = openEntrance(c); err != nil {
		return nil, err
	}
	if r.till, err = openTill(c, url); err != nil {
		return nil, err
	}
	r.policy = policy{&policies.Client{DB: r.pool(RoleReconcile), Hints: hints, Log: c.Log}}
	if _, err := r.policy.client.Refresh(ctx); err != nil {
		return nil, err
	}
	for role, pool := range pools {
		r.sets[role] = r.furnishFor(c, pool)
		if role == RoleAPI {
			r.sets[role] = r.furnishFor(c, pg.Scoped{Pool: pool})
		}
	}
	if r.jobs, err = r.jobClient(c); err != nil {
		return nil, err
	}
	if a := r.sets[RoleAPI]; a != nil {
		// The API enqueues with its own rights, whoever works here as well.
		if r.queue, err = jobs.NewClient(pools[RoleAPI], nil, c.Log); err != nil {
			return nil, err
		}
		a.identity.Jobs, a.billing.Jobs, a.payments.Jobs = r.queue, r.queue, r.queue
	}
	return r, nil
}

func (r *rooms) furnishFor(c Config, db pg.Pool) *set {
	s := &set{db: db}
	schema := laterSchema()
	s.desired = &desired.Store{DB: db, Hints: r.hints, Check: schema.check}
	s.observed = &observed.Store{DB: db}
	s.identity = r.entrance.identity(c, db, r)
	s.catalog = &catalog.Service{DB: db, Clock: c.Clock, Hints: r.hints}
	s.ledger = &ledger.Service{DB: db}
	s.audited = &audit.Service{DB: db}
	s.metering = &metering.Service{DB: db}
	s.inventory = nodehealth.New(db, r.hints)
	s.inventory.Identity, s.inventory.Naming, s.inventory.Clock = s.identity, c.naming(), c.Clock
	s.inventory.Rules, s.inventory.TokenLife, s.inventory.Grace = r.policy.faults, r.policy.tokenLife, r.policy.drainGrace
	s.releases = r.releases.store(c, db)
	s.certificates = &secret.Certificates{DB: db, Barred: s.inventory.Retired}
	s.inventory.Certificates = s.certificates
	s.tasks = &nodetask.Store{DB: db, Signer: r.custody.Signer, Hints: r.hints, Clock: c.Clock}
	s.allocations = &allocation.Service{
		DB: db, Desired: s.desired, Inventory: s.inventory, Catalog: s.catalog, Identity: s.identity, Metering: s.metering,
		Limits: r.policy.request, Signs: signLogins(r.custody.Users), LoginLife: r.policy.loginLife, Naming: c.naming(), Hints: r.hints, Clock: c.Clock,
	}
	s.payments = r.till.payments(c, s, r)
	s.billing = &billing.Service{
		DB: db, Identity: s.identity, Ledger: s.ledger, Metering: s.metering, Running: s.allocations, Declarations: declarations{s.desired},
		Payments: s.payments, Figures: billing.NewFigures(), Policy: r.policy.money, Naming: c.naming(), Hints: r.hints, Clock: c.Clock,
	}
	s.changes = &change.Service{
		DB: db, Desired: s.desired, Identity: s.identity, Affected: world{s, r.policy.client}, History: &reconciler.History{DB: db}, Rules: r.policy.changes,
		Normal: schema.normal, Validate: validate.Run, Naming: c.naming(), Hints: r.hints, Clock: c.Clock,
	}
	return s
}

// schema validates what the API writes by the schema of its kind. The schema
// is compiled by the first such write: most servers see none, and it costs memory.
type schema func() (*validate.Checker, error)

func laterSchema() schema { return sync.OnceValues(validate.New) }

// normal is the object with what its spec leaves out.
func (s schema) normal(o desired.Object) (desired.Object, error) {
	c, err := s()
	if err != nil {
		return o, err
	}
	return c.Object(o)
}

func (s schema) check(o desired.Object) error {
	_, err := s.normal(o)
	return err
}

// jobClient works where this process has that role, and only enqueues elsewhere.
func (r *rooms) jobClient(c Config) (*river.Client[pgx.Tx], error) {
	w := r.sets[RoleWork]
	if w == nil {
		return jobs.NewClient(r.pool(RoleReconcile), nil, c.Log)
	}
	deps := &jobs.Deps{
		DB: w.db, Desired: w.desired, Observed: w.observed, Tasks: w.tasks, Allocations: w.allocations, Inventory: w.inventory, Releases: w.releases,
		Catalog: w.catalog, Policies: r.policy.client, Metering: w.metering, Ledger: w.ledger, Billing: w.billing, Payments: w.payments, Audit: w.audited, Hints: r.hints, Log: c.Log,
		Window: r.policy.window, ObservationStale: r.policy.observationStale, Sweeping: r.policy.sweeping,
		Began: c.Clock.Now(), Clock: c.Clock, Logins: r.policy.logins, UserCA: r.custody.Users.Public,
		Reports: &forge.Reports{DB: w.db}, Development: c.Profile.Development,
		DriftRules: r.policy.drift, Naming: c.naming(), Figures: r.drift,
	}
	client, err := jobs.NewClient(r.pools[RoleWork], deps, c.Log)
	if err != nil {
		return nil, fmt.Errorf("making the workers: %w", err)
	}
	w.payments.Jobs = client
	r.paces = jobs.FollowPeriods(client, deps)
	return client, nil
}
