package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// Policy contains the policies that workers read at each decision.
type Policy struct {
	// Window is the interval between charges: billing.window_seconds.
	Window func() time.Duration
	// ObservationStale is the time for which a node's last report counts for billing:
	// billing.observation_stale_seconds.
	ObservationStale func() time.Duration
	// Sweeping is the interval between searches for missed payments: payment.sweep_minutes.
	Sweeping func() time.Duration
	// Logins returns the limits of a tenant's login on a node. Nil: those of the node.
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

// paced is a periodic job whose period a policy sets.
type paced struct {
	args    river.JobArgs
	period  func() time.Duration
	onStart bool
}

func pacedBy(d *Deps) []paced {
	all := []paced{
		{args: Accrue{}, period: d.Window, onStart: true},
		{args: CheckMeters{}, period: func() time.Duration { return min(d.Window(), checking) }},
	}
	if d.Payments != nil {
		all = append(all, paced{args: SweepPayments{}, period: d.Sweeping, onStart: true})
	}
	return all
}

// every is a schedule whose period policy may change.
type every func() time.Duration

// Next is the next trigger.
func (e every) Next(now time.Time) time.Time { return now.Add(e()) }

func (p paced) job() *river.PeriodicJob {
	return river.NewPeriodicJob(every(p.period), func() (river.JobArgs, *river.InsertOpts) { return p.args, nil },
		&river.PeriodicJobOpts{ID: p.args.Kind(), RunOnStart: p.onStart})
}

// periodLook is how often the periods are compared. They are in memory.
const periodLook = time.Second

// FollowPeriods notes the periods of the paced jobs. The function that it returns
// schedules a job anew when policy has changed its period, until ctx ends.
//
// River asks a schedule for the next time only when the last one has come. After a
// change from 300 s to 10 s the first of the new periods would begin up to 300 s
// late: at the first start of an installation that is so whenever River's leader,
// who waits for up to a second, is faster than the first revision.
//
// Call FollowPeriods before the client starts.
func FollowPeriods(client *river.Client[pgx.Tx], d *Deps) func(ctx context.Context) error {
	all := pacedBy(d)
	last := make([]time.Duration, len(all))
	for i, p := range all {
		last[i] = p.period()
	}
	return func(ctx context.Context) error {
		looks := time.NewTicker(periodLook)
		defer looks.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-looks.C:
			}
			for i, p := range all {
				now := p.period()
				if now == last[i] {
					continue
				}
				last[i] = now
				client.PeriodicJobs().RemoveByID(p.args.Kind())
				if _, err := client.PeriodicJobs().AddSafely(p.job()); err != nil {
					return fmt.Errorf("scheduling %s every %s: %w", p.args.Kind(), now, err)
				}
			}
		}
	}
}
