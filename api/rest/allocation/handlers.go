// Package allocation serves the operations of allocations: request, list, read, release and login certificates.
package allocation

import (
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of allocations.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Exports response.Exports
}
