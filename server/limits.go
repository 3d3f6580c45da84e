package server

import (
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// policy reads the values that each room decides by, one revision for one
// decision. They come from memory; a server reads them once before it starts.
type policy struct{ client *policies.Client }

// askAgain is how long the loop waits for an answer before it asks anew: five
// report periods of a healthy fleet are shorter.
const askAgain = 10 * time.Second

func (p policy) view(scopes ...policies.Scope) policies.View {
	return p.client.Latest().For(scopes...)
}

func (p policy) loop() reconciler.Limits {
	v := p.view()
	return reconciler.Limits{
		Limits: plan.Limits{
			ProvisionDeadline: minutes(v.Int(policies.AllocationProvisionDeadlineMinutes)),
			ReleaseDeadline:   minutes(v.Int(policies.AllocationReleaseDeadlineMinutes)),
			ProvisionAttempts: int(v.Int(policies.AllocationProvisionAttempts)),
			ReleaseAttempts:   int(v.Int(policies.AllocationReleaseAttempts)),
			AskAgain:          askAgain,
			Drift:             p.drift(),
		},
		Enabled:      v.Bool(policies.ReconcileEnabled),
		SweepEvery:   seconds(v.Int(policies.ReconcileSweepSeconds)),
		MassReleases: int(v.Int(policies.NodeMassReleaseLimit)),
		MassNodes:    int(v.Int(policies.NodeMassActionMinimum)),
		MassPercent:  int(v.Int(policies.NodeMassActionPercent)),
	}
}

// drift is what drift of each kind leads to.
func (p policy) drift() map[desired.Kind]plan.Rule {
	v, rules := p.view(), map[desired.Kind]plan.Rule{}
	for kind, key := range map[desired.Kind]policies.TextKey{
		desired.KindEnvironment: policies.GitOpsDriftPolicyEnvironment, desired.KindPolicy: policies.GitOpsDriftPolicyPolicy,
		desired.KindRole: policies.GitOpsDriftPolicyRole, desired.KindSKU: policies.GitOpsDriftPolicySKU, desired.KindOSImage: policies.GitOpsDriftPolicyOSImage,
		desired.KindNode: policies.GitOpsDriftPolicyNode, desired.KindAllocation: policies.GitOpsDriftPolicyAllocation,
	} {
		rules[kind] = plan.Rule(v.String(key))
	}
	return rules
}

// of reads along a caller's scopes.
func (p policy) of(c identity.Caller) policies.View { return p.view(along(c)...) }

func along(c identity.Caller) []policies.Scope {
	return append(spending(c.Tenant, c.TenantName, c.Project), policies.In(policies.LevelUser, c.User.String()))
}

// money reads what a tenant, or one of its projects, may spend.
func (p policy) money(tenant ids.Tenant, name string, project ids.Project) policies.View {
	return p.view(spending(tenant, name, project)...)
}

// spending are the scopes that limits of spending are set at: the tenant by its
// name, as files write it, and by its id, as the API does.
func spending(tenant ids.Tenant, name string, project ids.Project) []policies.Scope {
	scopes := []policies.Scope{policies.In(policies.LevelTenant, name), policies.In(policies.LevelTenant, tenant.String())}
	if project != (ids.Project{}) {
		scopes = append(scopes, policies.In(policies.LevelProject, project.String()))
	}
	return scopes
}

// passwords says whether people may sign in without a provider.
func (r *rooms) passwords() bool { return r.policy.view().Bool(policies.AuthPersonalLoginEnabled) }

func (p policy) request(c identity.Caller) allocation.Limits {
	now := p.client.Latest() // both views are of one revision
	v, tenant := now.For(along(c)...), now.For(spending(c.Tenant, c.TenantName, ids.Project{})...)
	return allocation.Limits{
		PerUser:       int(v.Int(policies.AllocationMaxConcurrentPerUser)),
		PerProject:    int(v.Int(policies.AllocationMaxConcurrentPerProject)),
		PerTenant:     int(v.Int(policies.AllocationMaxConcurrentPerTenant)),
		MaxGPUs:       int(v.Int(policies.AllocationMaxGPUs)),
		MinimumRunway: minutes(v.Int(policies.BillingMinimumRunwayMinutes)),
		HourlyProject: v.Minor(policies.BillingHourlySpendLimitMinor), HourlyTenant: tenant.Minor(policies.BillingHourlySpendLimitMinor),
		MonthlyProject: v.Minor(policies.BillingMonthlyBudgetMinor), MonthlyTenant: tenant.Minor(policies.BillingMonthlyBudgetMinor),
		QueueWait:  time.Duration(v.Int(policies.AllocationQueueMaxWaitHours)) * time.Hour,
		DefaultTTL: time.Duration(v.Int(policies.AllocationDefaultTTLHours)) * time.Hour,
		MaxTTL:     time.Duration(v.Int(policies.AllocationMaxTTLHours)) * time.Hour,
	}
}

func (p policy) window() time.Duration {
	return seconds(p.view().Int(policies.BillingWindowSeconds))
}

// observationStale is for how long a node's last word is worth money.
func (p policy) observationStale() time.Duration {
	return seconds(p.view().Int(policies.BillingObservationStaleSeconds))
}

func (p policy) sweeping() time.Duration {
	return minutes(p.view().Int(policies.PaymentSweepMinutes))
}

// logins are what a tenant's login on a host of these is bounded by.
func (p policy) logins(sku, region string) jobs.Logins {
	v := p.view(policies.In(policies.LevelRegion, region), policies.In(policies.LevelSKU, sku))
	l := jobs.Logins{Limits: protocol.Limits{
		CPUWeight: int(v.Int(policies.LoginCPUWeight)), MemoryMiB: v.Int(policies.LoginMemoryMiB),
		Tasks: v.Int(policies.LoginMaxTasks), HomeGiB: v.Int(policies.LoginHomeGiB),
	}}
	if v.String(policies.NodePartitionAction) == "stop" {
		l.StopAfterHours = int(v.Int(policies.NodePartitionStopAfterHours))
	}
	return l
}

func (p policy) reportSeconds() int { return int(p.view().Int(policies.NodeReportSeconds)) }

// staleAfter: a report is evidence for this long.
func (p policy) staleAfter() time.Duration {
	v := p.view()
	return seconds(v.Int(policies.NodeReportSeconds) * v.Int(policies.NodeStaleAfterReports))
}

// caps are how much one revision may take away without a person's word.
func (p policy) caps() (objects, percent int) {
	v := p.view()
	return int(v.Int(policies.GitOpsPruneCapObjects)), int(v.Int(policies.GitOpsPruneCapPercent))
}

// changes are what a change of the declarations is held against.
func (p policy) changes() preview.Rules {
	v := p.view()
	objects, percent := p.caps()
	return preview.Rules{
		PruneObjects: objects, PrunePercent: percent, Requires: v.List(policies.GitOpsApplyRequires),
		MassPercent: int(v.Int(policies.NodeMassActionPercent)), MassMinimum: int(v.Int(policies.NodeMassActionMinimum)),
	}
}

// faults are what broken GPUs of a SKU lead to, and how much of the fleet the platform
// may hold by itself.
func (p policy) faults(sku string) nodehealth.FaultRules {
	v := p.view(policies.In(policies.LevelSKU, sku))
	return nodehealth.FaultRules{
		Action:      v.String(policies.NodeGPUFaultAction),
		MassPercent: int(v.Int(policies.NodeMassActionPercent)), MassMinimum: int(v.Int(policies.NodeMassActionMinimum)),
	}
}

func (p policy) certificateTTL() time.Duration {
	return time.Duration(p.view().Int(policies.NodeCertificateTTLHours)) * time.Hour
}

// drainGrace is how long tenants may stay on a node that drains.
func (p policy) drainGrace(node string) time.Duration {
	return minutes(p.view(policies.In(policies.LevelNode, node)).Int(policies.NodeDrainGraceMinutes))
}

// loginLife is how long a certificate lets its holder in.
func (p policy) loginLife() time.Duration {
	return seconds(p.view().Int(policies.TerminalCertificateTTLSeconds))
}

// tokenLife is how long an enrolment token waits for its node.
func (p policy) tokenLife() time.Duration {
	return minutes(p.view().Int(policies.NodeEnrolmentTokenMinutes))
}

func days(n int64) time.Duration    { return time.Duration(n) * 24 * time.Hour }
func minutes(n int64) time.Duration { return time.Duration(n) * time.Minute }
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
