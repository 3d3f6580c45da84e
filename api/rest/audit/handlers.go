// Package audit serves the audit log as pages and as CSV.
package audit

import (
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of the audit log.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Exports response.Exports
}
