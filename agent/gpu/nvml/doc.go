// Package nvml reads NVIDIA devices through the driver's library. It needs cgo and
// the build tag nvml; without it Tool says that it cannot, and nvidia-smi is asked.
//
// A call into a driver that hangs never returns: only a child process makes one.
package nvml

import "errors"

// ErrAbsent says that this build has no NVML.
var ErrAbsent = errors.New("this build reads no NVML")
