package hook

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// settings puts the host's own settings, which keep tenants apart from each other
// and from the host. They are nobody's, so they stay when a tenant leaves.
func settings() Step {
	check, verify := absent(func(s State, _ wire.Order) []string { return s.Settings })
	return Step{
		Name: "settings", Within: fair, Code: wire.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, _ wire.Order) error { return h.PutSettings(ctx) },
	}
}
