package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutSettings writes the settings that separate tenants from each other and from the host OS. They
// belong to no tenant, so a release does not remove them.
func PutSettings() Step {
	check, verify := absent(func(s State, _ protocol.AllocationParams) []string { return s.Settings })
	return Step{
		Name: "settings", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, _ protocol.AllocationParams) error { return h.PutSettings(ctx) },
	}
}
