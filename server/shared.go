package server

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgstat"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/monitor"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/jobs/retention"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// Maximum connections of each role. Together they stay below the 60 of the private cluster. A
// bigger database needs more replicas, not bigger pools.
const (
	apiConns       = 16
	nodeConns      = 10
	reconcileConns = 4
	workConns      = 16
	relayConns     = 4
	terminalConns  = 5
)

// ownerConns: a migration has its lock on one connection and works on others.
const ownerConns = 4

// shared contains what the roles of this process have in common, and the services of each.
type shared struct {
	pools    map[Role]*pgxpool.Pool
	services map[Role]*services.Services
	tasks    map[Role]*nodetask.Store
	hints    *hint.Bus
	policies *policies.Client
	gate     *restore.Gate // closed while a restore of the database is not confirmed

	drift          *reconciler.Metrics
	taskMetrics    *nodetask.Metrics
	reportMetrics  *nodeapi.Metrics
	paymentMetrics *payment.Metrics
	attempts       *monitor.Durations // of jobs
	database       *pgstat.Metrics    // nil without the role work

	jobs *river.Client[pgx.Tx] // runs the workers, or only inserts for the loop
	// followPeriods schedules periodic jobs again when a policy changes their period.
	followPeriods func(context.Context) error

	keys        *keystore.Keys
	failures    *prometheus.CounterVec // stored secrets that did not open
	releaseSets *secret.KeySets
	binaries    *nodeapi.Binaries
	builds      agentrelease.Files
	auth        *auth
	blobs       blob.Store // nil without the roles that use it
}

func openPools(ctx context.Context, c Config) (map[Role]*pgxpool.Pool, error) {
	sizes := map[Role]int32{RoleAPI: apiConns, RoleNode: nodeConns, RoleReconcile: reconcileConns, RoleWork: workConns, RoleRelay: relayConns, RoleTerminal: terminalConns}
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

// pool returns the pool of a role, or of the first role that runs here. Use it for what every role
// may read.
func (s *shared) pool(role Role) *pgxpool.Pool {
	if p, ok := s.pools[role]; ok {
		return p
	}
	for _, other := range AllRoles() {
		if p, ok := s.pools[other]; ok {
			return p
		}
	}
	return nil
}

// prepare brings schema and rights up to date before any role serves, and reads the applied profile.
// The owner of the schema does nothing else.
func prepare(ctx context.Context, c *Config) error {
	owner, err := pg.Open(ctx, c.DatabaseURL, "gpuaas-migrate", ownerConns)
	if err != nil {
		return err
	}
	defer owner.Close()
	if err := migrations.Up(ctx, owner); err != nil {
		return err
	}
	if err := retention.Make(ctx, owner); err != nil {
		return err
	}
	if err := keystore.Prepare(ctx, keystore.Preparation{
		Config: c.Keys, DB: owner, StateDir: c.StateDir, Development: c.Profile.Development, Signs: c.hasRole(RoleWork), Log: c.Log, Clock: c.Clock,
	}); err != nil {
		return err
	}
	return c.useApplied(ctx, owner)
}

// prepared checks that another server has done what prepare does. This one has no login of the owner.
func prepared(ctx context.Context, c *Config, pool *pgxpool.Pool) error {
	if err := migrations.Current(ctx, pool); err != nil {
		return err
	}
	return c.useApplied(ctx, pool)
}

// useApplied replaces the profile of the newest commit by the applied one. The newest commit may
// wait for an approval. Before the first revision, and in development, the commit counts.
func (c *Config) useApplied(ctx context.Context, db pg.Queryer) error {
	applied, err := desired.AppliedProfile(ctx, db)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("reading the applied profile: %w", err)
	case !applied.Development:
		c.Profile = applied
	}
	return nil
}

func build(ctx context.Context, c Config, blobs blob.Store, pools map[Role]*pgxpool.Pool, hints *hint.Bus, publicURL, mountURL func() string) (*shared, error) {
	s := &shared{
		pools: pools, services: map[Role]*services.Services{}, tasks: map[Role]*nodetask.Store{}, hints: hints,
		drift: reconciler.NewMetrics(), taskMetrics: nodetask.NewMetrics(), reportMetrics: nodeapi.NewMetrics(), paymentMetrics: payment.NewMetrics(), attempts: monitor.NewDurations(c.Clock), binaries: &nodeapi.Binaries{Dir: c.agentDir()},
		blobs: blobs, builds: agentrelease.Files{Dir: filepath.Join(c.StateDir, agentrelease.BuildsDir)}, failures: secret.NewFailureMetric(),
	}
	var err error
	if err := s.openKeys(ctx, c); err != nil {
		return nil, err
	}
	if err := s.openGate(ctx, c); err != nil {
		return nil, err
	}
	s.auth = newAuth(c, s.keys)
	if s.auth.tokens != nil {
		s.auth.tokens.NotBefore = s.gate.BeganAt
	}
	provider, err := c.Payments.provider()
	if err != nil {
		return nil, err
	}
	s.policies = &policies.Client{DB: s.pool(RoleReconcile), Hints: hints, Log: c.Log}
	if _, err := s.policies.Refresh(ctx); err != nil {
		return nil, err
	}
	for role, pool := range pools {
		if err := s.addRole(c, role, pool, provider, publicURL, mountURL); err != nil {
			return nil, err
		}
	}
	return s, s.addQueues(c)
}

// addRole builds the services with the rights of a role. Those of the API also have the scope of
// each request.
func (s *shared) addRole(c Config, role Role, pool *pgxpool.Pool, provider payment.Provider, publicURL, mountURL func() string) (err error) {
	var db pg.Pool = pool
	if role == RoleAPI {
		db = pg.Scoped{Pool: pool}
	}
	config := services.Config{
		DB: db, Policies: s.policies, Hints: s.hints, Naming: c.naming(), Clock: c.Clock, Log: c.Log,
		ReleaseKeys: s.releaseKeys, Payments: provider, PaymentMetrics: s.paymentMetrics, Credentials: c.Credentials, PublicURL: publicURL, MountURL: mountURL, AuditArchive: c.AuditArchive, Environment: c.Environment,
		Development: c.Profile.Development,
	}
	if s.auth.provider != nil {
		config.SignIn = s.auth.provider
	}
	if issuers := c.Profile.SignIn.JobIssuers; len(issuers) > 0 {
		config.JobIssuers, config.VerifyJob = issuers, oidc.NewJobIssuers(issuers, publicURL, c.Clock, nil).Verify
	}
	s.tasks[role] = &nodetask.Store{DB: db, Hints: s.hints, Clock: c.Clock, Metrics: s.taskMetrics}
	switch role { // each with its own keys, also where one process has several roles
	case RoleAPI:
		config.Blobs = s.blobs
		config.WebhookSeal, config.RecordingSeal, config.MountSeal = s.keys.Webhooks, s.keys.Recordings, s.keys.Mounts
		config.Keys = &services.Keys{Tokens: s.auth.tokens, Seal: s.keys.Fields, Users: s.keys.Logins}
	case RoleWork:
		config.Blobs = s.blobs
		config.WebhookSeal = s.keys.Webhooks
		s.tasks[role].Signer = s.keys.Tasks
		config.EvidenceSigner = s.keys.Evidence
		config.Mailer, config.MailFrom = c.mailer(), c.Profile.Mail.From
	case RoleTerminal:
		config.RecordingSeal = s.keys.Recordings
	case RoleNode:
		config.MountSeal = s.keys.Mounts
	case RoleReconcile, RoleRelay:
	}
	s.services[role], err = services.New(config)
	return err
}

// addQueues makes the client that runs the workers, or, in a process without that role, one that
// only inserts. The API inserts with its own rights in any case.
func (s *shared) addQueues(c Config) (err error) {
	if api := s.services[RoleAPI]; api != nil {
		queue, err := jobs.NewClient(s.pools[RoleAPI], nil, c.Log)
		if err != nil {
			return err
		}
		api.Enqueue(queue)
	}
	w := s.services[RoleWork]
	if w == nil {
		s.jobs, err = jobs.NewClient(s.pool(RoleReconcile), nil, c.Log)
		return err
	}
	deps := &jobs.Deps{
		Services: w, Policy: jobs.PolicyFrom(s.policies), Tasks: s.tasks[RoleWork], UserCA: s.keys.Public.LoginAuthorities,
		Development: c.Profile.Development, Began: c.Clock.Now(), Metrics: s.drift, Attempts: s.attempts, Log: c.Log,
	}
	if s.jobs, err = jobs.NewClient(s.pools[RoleWork], deps, c.Log); err != nil {
		return fmt.Errorf("making the workers: %w", err)
	}
	s.followPeriods = jobs.FollowPeriods(s.jobs, deps)
	s.database = &pgstat.Metrics{DB: s.pools[RoleWork]}
	w.Enqueue(s.jobs)
	return nil
}

// collectors returns the metrics of all roles that run here.
func (s *shared) collectors() []prometheus.Collector {
	all := []prometheus.Collector{s.failures, s.paymentMetrics, s.drift, s.taskMetrics, s.reportMetrics, poolMetrics(s.pools), s.gate.Metric()}
	if loop := s.services[RoleReconcile]; loop != nil {
		all = append(all, services.LoopMetrics{Services: loop})
	}
	if worker := s.services[RoleWork]; worker != nil {
		all = append(all, services.WorkerMetrics{Services: worker}, retention.Metrics{Services: worker}, nodetask.QueuedMetrics{Store: s.tasks[RoleWork]}, monitor.Queue{DB: s.pools[RoleWork]}, s.attempts, s.database, worker.Billing.Metrics, worker.AutoTopups.Failures, worker.Notifications.Metrics, worker.WebhookEndpoints.Metrics)
	}
	return all
}

// provider opens the account at the payment provider, or returns nil without one.
func (p Payments) provider() (payment.Provider, error) {
	if p.SecretKey == "" {
		return nil, nil //nolint:nilnil // top-ups are off
	}
	client, err := stripe.New(stripe.Config{Key: p.SecretKey, WebhookSecret: p.WebhookSecret, URL: p.APIURL})
	if err != nil {
		return nil, fmt.Errorf("opening the account at the payment provider: %w", err)
	}
	return client, nil
}
