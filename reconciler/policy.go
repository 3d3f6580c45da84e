package reconciler

import (
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// repeatAfter is the time after which the loop repeats an unanswered action. Five report periods of a
// healthy fleet are shorter.
const repeatAfter = 10 * time.Second

// LimitsFrom returns a function that reads the limits of one pass from one policy revision.
func LimitsFrom(client *policies.Client) func() Limits {
	return func() Limits {
		s := client.Latest()
		v := s.For()
		return Limits{
			Limits: plan.Limits{
				Deadlines: deadlines(v), SKUs: deadlinesBySKU(s),
				ProvisionAttempts: int(v.Int(policies.AllocationProvisionAttempts)),
				ReleaseAttempts:   int(v.Int(policies.AllocationReleaseAttempts)),
				RetryLimit:        int(v.Int(policies.ReconcileRetryLimit)),
				RetryAfter:        repeatAfter,
				Drift:             driftRules(v),
			},
			Enabled:      v.Bool(policies.ReconcileEnabled),
			SweepEvery:   time.Duration(v.Int(policies.ReconcileSweepSeconds)) * time.Second,
			MassReleases: int(v.Int(policies.NodeMassReleaseLimit)),
			MassNodes:    int(v.Int(policies.NodeMassActionMinimum)),
			MassPercent:  int(v.Int(policies.NodeMassActionPercent)),
		}
	}
}

func deadlines(v policies.View) plan.Deadlines {
	return plan.Deadlines{
		Provision: time.Duration(v.Int(policies.AllocationProvisionDeadlineMinutes)) * time.Minute,
		Release:   time.Duration(v.Int(policies.AllocationReleaseDeadlineMinutes)) * time.Minute,
	}
}

// deadlinesBySKU lists the SKUs for which a policy is set.
func deadlinesBySKU(s policies.Snapshot) map[string]plan.Deadlines {
	skus := map[string]plan.Deadlines{}
	for _, key := range []policies.IntKey{policies.AllocationProvisionDeadlineMinutes, policies.AllocationReleaseDeadlineMinutes} {
		for _, at := range s.ScopesOf(string(key), policies.LevelSKU) {
			skus[at.Name()] = deadlines(s.For(at))
		}
	}
	return skus
}

// DriftRulesFrom returns a function that reads the rule for drift of each kind.
func DriftRulesFrom(client *policies.Client) func() map[desired.Kind]plan.Rule {
	return func() map[desired.Kind]plan.Rule { return driftRules(client.Latest().For()) }
}

func driftRules(v policies.View) map[desired.Kind]plan.Rule {
	rules := map[desired.Kind]plan.Rule{}
	for kind, key := range map[desired.Kind]policies.TextKey{
		desired.KindEnvironment: policies.GitOpsDriftPolicyEnvironment, desired.KindPolicy: policies.GitOpsDriftPolicyPolicy,
		desired.KindRole: policies.GitOpsDriftPolicyRole, desired.KindSKU: policies.GitOpsDriftPolicySKU, desired.KindOSImage: policies.GitOpsDriftPolicyOSImage,
		desired.KindStorageClass: policies.GitOpsDriftPolicyStorageClass, desired.KindNode: policies.GitOpsDriftPolicyNode, desired.KindAllocation: policies.GitOpsDriftPolicyAllocation,
	} {
		rules[kind] = plan.Rule(v.String(key))
	}
	return rules
}
