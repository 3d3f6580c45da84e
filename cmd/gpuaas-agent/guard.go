package main

import (
	"context"

	"github.com/gpuaas/gpuaas/agent"
)

// guard is run by systemd, from the build that an update has left: it goes back to
// that build unless the new one has proved itself.
func guard(ctx context.Context, p process) error {
	c, err := p.serving(ctx)
	if err != nil {
		return err
	}
	return agent.Guard(ctx, c)
}
