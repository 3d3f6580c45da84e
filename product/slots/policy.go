package slots

import (
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// RulesFrom returns a function that reads the policies of placements.
func RulesFrom(client *policies.Client) func() place.Rules {
	return func() place.Rules {
		s := client.Latest()
		rules := place.Rules{Spread: spreads(s.For()), Regions: map[string]bool{}, Excluded: map[string]bool{}, AvoidAfter: int(s.For().Int(policies.PlacementExcludeNodeAfterFailures))}
		for _, at := range s.ScopesOf(string(policies.PlacementStrategy), policies.LevelRegion) {
			rules.Regions[at.Name()] = spreads(s.For(at))
		}
		for _, at := range s.ScopesOf(string(policies.AllocationIsolationModel), policies.LevelNode) {
			rules.Excluded[at.Name()] = !desired.DeliversIsolation(s.For(at).String(policies.AllocationIsolationModel))
		}
		return rules
	}
}

func spreads(v policies.View) bool { return v.String(policies.PlacementStrategy) == "spread" }
