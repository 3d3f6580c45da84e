package change

import (
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/policies"
)

// RulesFrom returns a function that reads the rules that a change is checked against.
func RulesFrom(client *policies.Client) func() preview.Rules {
	return func() preview.Rules {
		v := client.Latest().For()
		return preview.Rules{
			PruneObjects: int(v.Int(policies.GitOpsPruneCapObjects)), PrunePercent: int(v.Int(policies.GitOpsPruneCapPercent)),
			Requires:    v.List(policies.GitOpsApplyRequires),
			MassPercent: int(v.Int(policies.NodeMassActionPercent)), MassMinimum: int(v.Int(policies.NodeMassActionMinimum)),
		}
	}
}
