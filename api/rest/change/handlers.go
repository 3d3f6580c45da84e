// Package change serves desired objects, plans of changes, drift, policies and Git sources, and what the
// services know of a desired object.
package change

import (
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of desired state.
type Handlers struct {
	*services.Services

	Cursors  response.Cursors
	Chain    *middleware.Chain
	Objects  ObjectReader
	Timeline Timeline
}
