package agent

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/care"
	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/hook"
	"github.com/gpuaas/gpuaas/agent/host"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// open returns the driver of the node, and its host unless it only looks.
func (c Config) open(ctx context.Context, node ids.Node) (helper.Driver, hook.Host, error) {
	if c.Driver == DriverNVIDIA {
		m, err := care.Open(ctx, care.Options{
			Tool: &care.Library{Tool: &nvidiasmi.Tool{Path: c.SMI, Log: c.Log}, Self: c.Self}, Self: c.Self, StateDir: c.StateDir, Log: c.Log, Clock: c.Clock,
		})
		h := &host.Host{
			SMI: nvidiasmi.Tool{Path: c.SMI, Log: c.Log}, Agent: c.Self, SSHD: c.SSHD, Scrubber: c.Scrub, Deny: c.Deny, Clock: c.Clock, Log: c.Log,
		}
		return m, h, err
	}
	d, err := sim.Open(c.StateDir, node, c.Profile, c.Hostname)
	if err != nil {
		return nil, nil, err
	}
	return d, d, nil
}

// Inventory reads the hardware that the configured driver finds, once.
func Inventory(ctx context.Context, c Config, node ids.Node) (wire.Inventory, error) {
	d, _, err := c.open(ctx, node)
	if err != nil {
		return wire.Inventory{}, err
	}
	return d.Inventory(ctx)
}
