package task

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// The levels of a health check.
const (
	levelMedium = 2
	levelLong   = 3
)

const (
	checkWithin  = 30 * time.Minute // level 3 runs diagnostics
	quickWithin  = 10 * time.Second
	mediumWithin = 5 * time.Minute
	longWithin   = 25 * time.Minute
	dcgmPath     = "/usr/bin/dcgmi"
)

// healthCheck examines the node at one of four levels. It changes nothing, so that the journal does not
// contain it. The diagnostics are heavy for the devices: the runner executes one at a time, and each once.
func healthCheck() Handler {
	return Handler{
		Type: protocol.HealthCheck, Supported: needsDevices(protocol.HealthCheck), Within: checkWithin, Once: true,
		Run: checkHealth, Resume: checkHealth,
	}
}

// HealthCheckAnswer is the result of a health check.
type HealthCheckAnswer struct {
	Level   int                     `json:"level"`
	Health  []protocol.HealthReport `json:"health"`
	Skipped []string                `json:"skipped,omitempty"` // checks of the level that this node cannot run
}

// checkHealth examines the devices. The report that follows contains the findings, too. A driver that does
// not respond is a finding and not a failure of the task.
func checkHealth(ctx context.Context, x *Execution) (Result, error) {
	p, err := protocol.ParamsOf[protocol.HealthCheckParams](x.Envelope)
	if err != nil {
		return Result{}, err
	}
	quick, cancel := context.WithTimeout(ctx, quickWithin)
	defer cancel()
	inventory, err := x.Devices.Inventory(quick)
	answer := HealthCheckAnswer{Level: p.Level, Health: x.Devices.Examine(quick, inventory, err).Health}
	if p.Level < levelMedium || err != nil {
		return Result{Answer: answer}, nil
	}
	for _, g := range inventory.GPUs {
		if g.Processes > 0 {
			return Result{}, protocol.Reject(protocol.SlotBusy, "%s is in use: a check of level %d is for an idle node", g.UUID, p.Level)
		}
	}
	if err := diagnose(ctx, p.Level, &answer); err != nil {
		return Result{}, err
	}
	return Result{Answer: answer}, nil
}

// diagnose runs the diagnostics of NVIDIA, if they are installed.
func diagnose(ctx context.Context, level int, answer *HealthCheckAnswer) error {
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
