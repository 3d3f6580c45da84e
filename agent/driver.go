package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/hook"
	"github.com/gpuaas/gpuaas/agent/host"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// open returns the driver of the node, and its host unless it only looks.
func (c Config) open(node ids.Node) (helper.Driver, hook.Host, error) {
	if c.Driver == DriverNVIDIA {
		return &realHost{nvidiasmi.Tool{Path: c.SMI, Log: c.Log}}, &host.Host{SMI: nvidiasmi.Tool{Path: c.SMI, Log: c.Log}, Scrubber: c.Scrub, Deny: c.Deny, Clock: c.Clock, Log: c.Log}, nil
	}
	d, err := sim.Open(c.StateDir, node, c.Profile, c.Hostname)
	if err != nil {
		return nil, nil, err
	}
	return d, d, nil
}

// Inventory reads the hardware that the configured driver finds, once.
func Inventory(ctx context.Context, c Config, node ids.Node) (wire.Inventory, error) {
	d, _, err := c.open(node)
	if err != nil {
		return wire.Inventory{}, err
	}
	return d.Inventory(ctx)
}

// realHost looks at real devices.
type realHost struct{ nvidiasmi.Tool }

// Stamp is constant: nothing cheap tells when a device changed, so it is read for
// each report.
func (*realHost) Stamp() (string, error)     { return "", nil }
func (*realHost) Partitioned() (bool, error) { return false, nil }

func (*realHost) BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading boot id: %w", err)
	}
	if id := strings.TrimSpace(string(text)); id != "" {
		return id, nil
	}
	return "", errors.New("the kernel gave no boot id")
}
