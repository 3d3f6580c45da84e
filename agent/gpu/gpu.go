// Package gpu says how a host's devices are found. Each way of finding them is a
// package below it.
package gpu

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// Provider reads the hardware. An error means that nothing is known, which is
// never the same as that nothing is there.
type Provider interface {
	Inventory(ctx context.Context) (wire.Inventory, error)
}
