package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutSettings puts the host's own settings, which keep tenants apart from each other
// and from the host. They are nobody's, so they stay when a tenant leaves.
func PutSettings() Step {
	check, verify := absent(func(s State, _ protocol.Order) []string { return s.Settings })
	return Step{
		Name: "settings", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, _ protocol.Order) error { return h.PutSettings(ctx) },
	}
}
