package linux

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/linux/hostlog"
	"github.com/gpuaas/gpuaas/agent/logs"
)

// Logs implements helper.LogHost.
func (h *Host) Logs(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
	if s.Follow && s.Since.IsZero() {
		s.Since = h.Clock.Now()
	}
	return hostlog.Read(ctx, s, each)
}
