package allocation

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// LimitsFrom returns a function that reads the limits of a caller's requests. Both views of one
// call are of the same policy revision.
func LimitsFrom(client *policies.Client) func(identity.Caller) Limits {
	return func(c identity.Caller) Limits {
		now := client.Latest()
		v, tenant := now.For(c.PolicyScopes()...), now.For(identity.TenantScopes(c.Tenant, ids.Project{})...)
		return Limits{
			PerUser:       int(v.Int(policies.AllocationMaxConcurrentPerUser)),
			PerProject:    int(v.Int(policies.AllocationMaxConcurrentPerProject)),
			PerTenant:     int(v.Int(policies.AllocationMaxConcurrentPerTenant)),
			MaxGPUs:       int(v.Int(policies.AllocationMaxGPUs)),
			MinimumRunway: time.Duration(v.Int(policies.BillingMinimumRunwayMinutes)) * time.Minute,
			HourlyProject: v.Minor(policies.BillingHourlySpendLimitMinor), HourlyTenant: tenant.Minor(policies.BillingHourlySpendLimitMinor),
			MonthlyProject: v.Minor(policies.BillingMonthlyBudgetMinor), MonthlyTenant: tenant.Minor(policies.BillingMonthlyBudgetMinor),
			QueueWait:  time.Duration(v.Int(policies.AllocationQueueMaxWaitHours)) * time.Hour,
			DefaultTTL: time.Duration(v.Int(policies.AllocationDefaultTTLHours)) * time.Hour,
			MaxTTL:     time.Duration(v.Int(policies.AllocationMaxTTLHours)) * time.Hour,
			Admission:  v.Admission(),
		}
	}
}

// ExpiryWarningsFrom returns a function that reads how long before its end an allocation is announced: the platform's
// value, and those of tenants.
func ExpiryWarningsFrom(client *policies.Client) func() (time.Duration, map[ids.Tenant]time.Duration) {
	const key = policies.AllocationExpiryWarningMinutes
	return func() (time.Duration, map[ids.Tenant]time.Duration) {
		now, own := client.Latest(), map[ids.Tenant]time.Duration{}
		for _, at := range now.ScopesOf(string(key), policies.LevelTenant) {
			if tenant, err := ids.Parse[ids.Tenant](at.Name()); err == nil {
				own[tenant] = time.Duration(now.For(at).Int(key)) * time.Minute
			}
		}
		return time.Duration(now.For().Int(key)) * time.Minute, own
	}
}

// LoginLifeFrom returns a function that reads how long a login certificate is valid.
func LoginLifeFrom(client *policies.Client) func() time.Duration {
	return func() time.Duration {
		return time.Duration(client.Latest().For().Int(policies.TerminalCertificateTTLSeconds)) * time.Second
	}
}

// ReleaseDeadlineFrom returns a function that reads the time limit of a release.
func ReleaseDeadlineFrom(client *policies.Client) func() time.Duration {
	return minutes(client, policies.AllocationReleaseDeadlineMinutes)
}

// ProvisionDeadlineFrom returns a function that reads the time limit of provisioning.
func ProvisionDeadlineFrom(client *policies.Client) func() time.Duration {
	return minutes(client, policies.AllocationProvisionDeadlineMinutes)
}

func minutes(client *policies.Client, key policies.IntKey) func() time.Duration {
	return func() time.Duration { return time.Duration(client.Latest().For().Int(key)) * time.Minute }
}
