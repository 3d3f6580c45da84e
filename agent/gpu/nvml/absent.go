//go:build !nvml

package nvml

import "github.com/gpuaas/gpuaas/agent/gpu"

// Built says whether this build can.
const Built = false

// See reads all devices.
func See() (gpu.Reading, error) { return gpu.Reading{}, ErrAbsent }
