package gpuops

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/protocol"
)

// Devices is what the tasks about a node's devices are carried out on.
type Devices interface {
	gpu.Provider
	gpu.Examiner
	// Reset resets one device; it fails where anything uses it.
	Reset(ctx context.Context, g protocol.GPU) error
}

var _ Devices = (*Machine)(nil)

// Handlers carry out the tasks about the node that concern its devices.
func Handlers(p Devices) map[protocol.Type]runner.Handler {
	d := diagnostics{p}
	return map[protocol.Type]runner.Handler{protocol.HealthCheck: d.check, protocol.GPUReset: d.reset}
}

type diagnostics struct{ Devices }

// Checked answers a health check.
type Checked struct {
	Level   int                     `json:"level"`
	Health  []protocol.HealthReport `json:"health"`
	Skipped []string                `json:"skipped,omitempty"` // what a level asks for and this host cannot
}

// The levels of a health check.
const (
	levelMedium = 2
	levelLong   = 3
)

const (
	quickWithin  = 10 * time.Second
	mediumWithin = 5 * time.Minute
	longWithin   = 25 * time.Minute
	dcgmPath     = "/usr/bin/dcgmi"
)

// check looks at the node as deep as the level says. What it finds is in the report
// that follows as well.
func (d diagnostics) check(ctx context.Context, j runner.Job) (any, error) {
	p, err := j.Envelope.HealthCheck()
	if err != nil {
		return nil, err
	}
	quick, cancel := context.WithTimeout(ctx, quickWithin)
	defer cancel()
	inventory, err := d.Inventory(quick)
	answer := Checked{Level: p.Level, Health: d.Examine(quick, inventory, err).Health}
	if p.Level < levelMedium || err != nil {
		return answer, nil // a driver that does not answer is what was to be found out
	}
	for _, g := range inventory.GPUs {
		if g.Processes > 0 {
			return nil, protocol.Reject(protocol.SlotBusy, "%s is in use: a check of level %d is for an idle node", g.UUID, p.Level)
		}
	}
	if err := diagnose(ctx, p.Level, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// diagnose runs NVIDIA's diagnostics where they are installed.
func diagnose(ctx context.Context, level int, answer *Checked) error {
	if _, err := os.Stat(dcgmPath); err != nil {
		answer.Skipped = append(answer.Skipped, "dcgm is not installed")
		return nil
	}
	limit := map[int]time.Duration{levelMedium: mediumWithin, levelLong: longWithin}[level]
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := health.Start(ctx, dcgmPath, "diag", "-r", fmt.Sprint(level)); err != nil {
		return protocol.Reject(protocol.GPUUnhealthy, "diagnostics of level %d: %v", level, err)
	}
	return nil
}

// Was is a device before and after a reset.
type Was struct {
	Before protocol.GPU `json:"before"`
	After  protocol.GPU `json:"after"`
}

// reset resets one device. The runner has looked that no tenant holds it; that
// nothing uses it is looked at here, last.
func (d diagnostics) reset(ctx context.Context, j runner.Job) (any, error) {
	p, err := j.Envelope.GPUReset()
	if err != nil {
		return nil, err
	}
	before, err := d.device(ctx, p.GPU)
	if err != nil {
		return nil, err
	}
	if before.Processes > 0 && p.ExpectIdle {
		return nil, protocol.Reject(protocol.SlotBusy, "%d processes use %s", before.Processes, p.GPU)
	}
	// A crash here comes back to the same place: a device that was reset is reset
	// once more, and nobody was let in between.
	if err := j.Begin("reset"); err != nil {
		return nil, err
	}
	if err := d.Reset(ctx, before); err != nil {
		return nil, fmt.Errorf("resetting %s: %w", p.GPU, err)
	}
	after, err := d.device(ctx, p.GPU)
	if err != nil {
		return nil, fmt.Errorf("after the reset: %w", err)
	}
	return Was{before, after}, nil
}

func (d diagnostics) device(ctx context.Context, uuid string) (protocol.GPU, error) {
	inventory, err := d.Inventory(ctx)
	if err != nil {
		return protocol.GPU{}, err
	}
	i := slices.IndexFunc(inventory.GPUs, func(g protocol.GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return protocol.GPU{}, protocol.Reject(protocol.ParamsInvalid, "%s is not on this node", uuid)
	}
	return inventory.GPUs[i], nil
}
