package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// GPUHealth rejects a provisioning with a device that is unhealthy or does not respond. It has no Do, because
// a step cannot heal a GPU.
func GPUHealth() Step {
	return Step{
		Name: "gpu_health", Within: quick, Code: protocol.GPUUnhealthy,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			return true, clean(observe(ctx, h, o, func(s State) []string { return unusable(s, o) }))
		},
	}
}

// unusable lists the unusable GPUs. An unknown health counts as unhealthy: a device that does not respond cannot be scrubbed
// after the tenant.
func unusable(s State, o protocol.AllocationParams) (found []string) {
	for _, uuid := range o.GPUs {
		d, ok := s.device(uuid)
		switch {
		case !ok:
			found = append(found, uuid+" is not on this node")
		case d.Health == protocol.Unhealthy || d.Health == protocol.Unknown:
			found = append(found, fmt.Sprintf("%s is %s: %s", uuid, d.Health, strings.Join(d.Reasons, ", ")))
		}
	}
	return found
}
