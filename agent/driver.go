package agent

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/gpuops"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// open returns the driver of the node, and its host OS unless the driver only reads.
func (c Config) open(ctx context.Context, node ids.Node, keys *storagekey.Store) (helper.Driver, step.Host, error) {
	if c.Driver == DriverNVIDIA {
		m, err := gpuops.Open(ctx, gpuops.Options{
			Tool: &gpuops.Library{Tool: &nvidiasmi.Tool{Path: c.SMI, Log: c.Log}, Self: c.Self}, Self: c.Self, StateDir: c.StateDir, Log: c.Log, Clock: c.Clock,
		})
		if err != nil {
			return nil, nil, err
		}
		return m, &linux.Host{
			SMI: nvidiasmi.Tool{Path: c.SMI, Log: c.Log}, Agent: c.Self, SSHD: c.SSHD, Scrubber: c.Scrub, CorrectHealth: m.MergeHealth,
			Rules: netrules.Rules{Deny: c.Deny, Allow: c.Allow, Server: c.Server, AgentUID: c.PeerUID}, Clock: c.Clock, Log: c.Log, StorageKeys: keys,
		}, nil
	}
	d, err := sim.Open(c.StateDir, node, c.Profile, c.Hostname)
	if err != nil {
		return nil, nil, err
	}
	d.StorageKeys = keys
	return d, d, nil
}

// Inventory reads the hardware that the configured driver finds, once.
func Inventory(ctx context.Context, c Config, node ids.Node) (protocol.Inventory, error) {
	d, _, err := c.open(ctx, node, nil)
	if err != nil {
		return protocol.Inventory{}, err
	}
	return d.Inventory(ctx)
}
