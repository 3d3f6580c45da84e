// Package nvml reads NVIDIA devices through the driver's library. It needs cgo and the build tag
// nvml. Without it the agent uses nvidia-smi.
//
// A call into a driver that hangs never returns, so only a child process makes one.
package nvml

import "errors"

// ErrAbsent means that this build has no NVML.
var ErrAbsent = errors.New("this build reads no NVML")
