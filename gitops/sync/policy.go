package sync

import (
	"time"

	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/policies"
)

// RulesFrom returns a function that reads the rules of a sync.
func RulesFrom(client *policies.Client) func() Rules {
	return func() Rules {
		v := client.Latest().For()
		rules := Rules{Poll: time.Duration(v.Int(policies.GitOpsPollSeconds)) * time.Second, Limits: source.Limits{
			Files: int(v.Int(policies.GitOpsMaxFiles)), FileBytes: v.Int(policies.GitOpsMaxFileBytes), TreeBytes: v.Int(policies.GitOpsMaxTreeBytes),
		}, Forks: v.Bool(policies.GitOpsPreviewForks)}
		for _, requirement := range v.List(policies.GitOpsApplyRequires) {
			rules.Signed = rules.Signed || requirement == preview.RequiresSigned
			rules.Undiverged = rules.Undiverged || requirement == preview.RequiresUndiverged
		}
		return rules
	}
}
