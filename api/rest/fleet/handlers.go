// Package fleet serves nodes, slots and the capacity of SKUs.
package fleet

import (
	"github.com/gpuaas/gpuaas/api/rest/change"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of the fleet.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Parts   NodeParts
	Change  *change.Handlers
}
