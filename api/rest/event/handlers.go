// Package event serves the stream of events.
package event

import (
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of events.
type Handlers struct {
	*services.Services

	Stream *stream.Server
	Chain  *middleware.Chain
}
