package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// GPUHealth rejects a provisioning with a device that is unhealthy or does not respond.
func GPUHealth() Step {
	return Step{
		Name: "gpu_health", Within: quick, Code: protocol.GPUUnhealthy,
		Check: func(ctx context.Context, h Host, o protocol.Order) (bool, error) {
			return true, clean(observe(ctx, h, o, func(s State) []string { return sick(s, o) }))
		},
	}
}

func sick(s State, o protocol.Order) (found []string) {
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
