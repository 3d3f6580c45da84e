// Package jobs contains the River workers, one file per kind, and the list of all kinds. A job
// executes one action of one plan and decides nothing. It checks with the rows locked whether its
// plan is still current, executes the action, and is completed in the transaction of its effect. A
// lost job costs seconds, because the loop requests the action again.
package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/riverqueue/rivercontrib/otelriver"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
	"github.com/gpuaas/gpuaas/services"
)

// Logins are the policies for logins on nodes.
type Logins struct {
	Limits protocol.Limits
	// StopAfterHours is the time after which a node without contact stops its allocations. 0 means
	// never.
	StopAfterHours int
}

// Deps contains the services that the workers need, the mailboxes of nodes, and the policies.
type Deps struct {
	*services.Services
	Policy

	Tasks *nodetask.Store
	// UserCA lists the authorities that sign certificates of logins. Nil: none.
	UserCA func() []string
	// Development allows a forge on the local machine.
	Development bool
	// Began is the time at which this server began to listen. Silence of a node before that is not
	// evidence. Zero: long ago.
	Began    time.Time
	Metrics  *reconciler.Metrics  // nil: not counted
	Attempts rivertype.Middleware // measures jobs; nil: not measured
	Log      *slog.Logger
}

// Policy contains the policies that workers read at each decision.
type Policy struct {
	// Window is the interval between charges: billing.window_seconds.
	Window func() time.Duration
	// ObservationStale is the time for which a node's last report counts for billing:
	// billing.observation_stale_seconds.
	ObservationStale func() time.Duration
	// Sweeping is the interval between searches for missed payments: payment.sweep_minutes.
	Sweeping func() time.Duration
	// Logins returns the limits of a tenant's login on a node.
	Logins func(sku, region string) Logins
	// DriftRules returns the rule for drift of each kind: gitops.drift_policy.
	DriftRules func() map[desired.Kind]plan.Rule
}

// PolicyFrom reads the policies from a client's memory.
func PolicyFrom(client *policies.Client) Policy {
	read := func(key policies.IntKey, unit time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(client.Latest().For().Int(key)) * unit }
	}
	return Policy{
		Window:           read(policies.BillingWindowSeconds, time.Second),
		ObservationStale: read(policies.BillingObservationStaleSeconds, time.Second),
		Sweeping:         read(policies.PaymentSweepMinutes, time.Minute),
		Logins: func(sku, region string) Logins {
			return loginsOf(client.Latest().For(policies.In(policies.LevelRegion, region), policies.In(policies.LevelSKU, sku)))
		},
		DriftRules: reconciler.DriftRulesFrom(client),
	}
}

func loginsOf(v policies.View) Logins {
	l := Logins{Limits: protocol.Limits{
		CPUWeight: int(v.Int(policies.LoginCPUWeight)), MemoryMiB: v.Int(policies.LoginMemoryMiB),
		Tasks: v.Int(policies.LoginMaxTasks), HomeGiB: v.Int(policies.LoginHomeGiB),
	}}
	if v.String(policies.NodePartitionAction) == "stop" {
		l.StopAfterHours = int(v.Int(policies.NodePartitionStopAfterHours))
	}
	return l
}

// The settings below differ from River's defaults for a reason each.
const (
	// River's minute is longer than any job here needs; a job is one transaction.
	jobTimeout = 30 * time.Second
	// River's 100 ms make a job that was committed just after another wait for
	// the next poll: p99 0.9 s. At 2 ms it is tens of milliseconds.
	fetchCooldown = 2 * time.Millisecond
	// The longest a job waits when its notice was lost.
	fetchPoll = time.Second
	// Transactions at once for each queue: more only queue up for the database.
	perQueue = 8
)

// check returns an error that names the first part that is missing. A worker without it would panic, long after the
// start.
func (d *Deps) check() error {
	if d.Services == nil {
		return errors.New("jobs: Deps.Services is missing")
	}
	return cmp.Or(services.Required(*d, "UserCA", "Development", "Began", "Metrics", "Attempts"), services.Required(d.Policy),
		services.Required(*d.Services, "Naming", "Clock", "Queue", "Credentials"))
}

// NewClient makes the River client of a server that works, or, with nil workers,
// of one that only enqueues.
func NewClient(pool *pgxpool.Pool, d *Deps, log *slog.Logger) (*river.Client[pgx.Tx], error) {
	cfg := &river.Config{Schema: migrations.RiverSchema, Logger: telemetry.Library(log, "river")}
	if telemetry.Wanted() {
		cfg.Middleware = []rivertype.Middleware{otelriver.NewMiddleware(&otelriver.MiddlewareConfig{EnableSemanticMetrics: true})}
	}
	if d != nil {
		if err := d.check(); err != nil {
			return nil, err
		}
		if d.Attempts != nil {
			cfg.Middleware = append(cfg.Middleware, d.Attempts)
		}
		cfg.Workers = Workers(d)
		cfg.Queues = map[string]river.QueueConfig{}
		for _, q := range []string{reconciler.QueueProvision, reconciler.QueueRecord, keys.QueueAccess, ledger.QueueBilling, riverjob.QueueMaintenance, forge.QueueForge, riverjob.QueueNotify, evidence.QueueEvidence} {
			cfg.Queues[q] = river.QueueConfig{MaxWorkers: perQueue}
		}
		cfg.Queues[riverjob.QueueWebhook] = river.QueueConfig{MaxWorkers: webhook.Workers}
		cfg.JobTimeout = jobTimeout
		cfg.RescueStuckJobsAfter = riverjob.RescueAfter
		cfg.FetchCooldown = fetchCooldown
		cfg.FetchPollInterval = fetchPoll
		cfg.PeriodicJobs = periodicJobs(d)
		// Reindexing needs the owner of the tables. The role of the workers owns none.
		cfg.ReindexerSchedule = river.NeverSchedule()
	}
	client, err := river.NewClient(riverpgxv5.New(pool), cfg)
	if err != nil {
		return nil, fmt.Errorf("making the job client: %w", err)
	}
	return client, nil
}
