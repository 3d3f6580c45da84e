package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// Baseline sets the modes of the task's GPUs to the same values for every tenant, whatever the
// previous tenant left.
func Baseline() Step {
	check, verify := absent(offBaseline)
	return Step{
		Name: "gpu_baseline", Within: fair, Code: protocol.GPUUnhealthy, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			for _, uuid := range o.GPUs {
				if err := h.Baseline(ctx, uuid); err != nil {
					return fmt.Errorf("setting the modes of %s: %w", uuid, err)
				}
			}
			return nil
		},
	}
}

func offBaseline(s State, o protocol.AllocationParams) (found []string) {
	for _, uuid := range o.GPUs {
		if d, _ := s.device(uuid); len(d.Off) > 0 {
			found = append(found, fmt.Sprintf("modes: %s has %s, expected the baseline", uuid, strings.Join(d.Off, " and ")))
		}
	}
	return found
}
