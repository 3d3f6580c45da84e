package task

import (
	"context"
	"slices"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// revokeUser removes a tenant from the node and proves that nothing is left. Resume ignores the expiry: a
// release only removes, and the slot stays unavailable until it ends.
func revokeUser() Handler {
	return Handler{
		Type: protocol.RevokeUser, Supported: needsHost(protocol.RevokeUser), Check: slotsFree, Steps: releaseSteps,
		Run: runSteps, Resume: runSteps,
	}
}

func releaseSteps() []step.Step {
	return []step.Step{
		step.BlockLogin(), step.Unmount(), step.EndSessions(), step.RemoveAccess(), step.Evict(), step.ScrubAfter(), step.Sweep(), step.RemoveHome(),
		step.RemoveAccount(), step.RemoveDropIns(), step.Scan(),
	}
}

// stopSteps names the steps of a release that end logins and sessions and leave the tenant's data.
var stopSteps = []string{step.BlockLogin().Name, step.Unmount().Name, step.EndSessions().Name}

// Stop ends the logins and processes of a tenant. The slot stays the tenant's.
func Stop(ctx context.Context, x *Execution) error {
	steps := slices.DeleteFunc(x.steps(protocol.RevokeUser), func(s step.Step) bool { return !slices.Contains(stopSteps, s.Name) })
	return x.repeat(ctx, steps)
}
