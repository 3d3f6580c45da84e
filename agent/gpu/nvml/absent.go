//go:build !nvml

package nvml

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/health"
)

// Built returns whether this build can.
const Built = false

// See reads all devices.
func See() (gpu.Reading, error) { return gpu.Reading{}, ErrAbsent }

// Events passes each XID that the driver reports to each.
func Events(context.Context, func(health.Event) error) error { return ErrAbsent }
