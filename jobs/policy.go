package jobs

import (
	"time"

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
