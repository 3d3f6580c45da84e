package nodehealth

import "github.com/gpuaas/gpuaas/policies"

// FaultRulesFrom returns a function that reads the reaction to GPU faults of an SKU, and the limits
// of the breaker.
func FaultRulesFrom(client *policies.Client) func(sku string) FaultRules {
	return func(sku string) FaultRules {
		v := client.Latest().For(policies.In(policies.LevelSKU, sku))
		return FaultRules{
			Action:      v.String(policies.NodeGPUFaultAction),
			MassPercent: int(v.Int(policies.NodeMassActionPercent)), MassMinimum: int(v.Int(policies.NodeMassActionMinimum)),
		}
	}
}
