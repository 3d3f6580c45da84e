package preview

import (
	"fmt"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
)

// Public returns the part of a plan that anybody may read: counts, and no names of tenants, nodes or
// objects and no money. The author of a pull request from a fork may be a stranger.
func (p Plan) Public() Plan {
	out := Plan{
		Source: p.Source, Commit: p.Commit, Base: p.Base, Objects: p.Objects, Hash: p.Hash,
		Creates: p.Creates, Changes: p.Changes, Deletes: p.Deletes, Adopts: p.Adopts,
		Summary: fmt.Sprintf("Plan: %d to create, %d to change, %d to delete.", p.Creates, p.Changes, p.Deletes),
	}
	for _, w := range p.Waits {
		out.Waits = append(out.Waits, revision.Wait{Reason: w.Reason, Message: "an operator must approve it", Objects: []string{}})
	}
	if len(p.Findings) > 0 {
		out.Findings = []desired.Finding{{Message: counted(len(p.Findings), "finding") + " that operators can read with gpuaas get plans"}}
	}
	return out
}
