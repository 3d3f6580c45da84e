// Package event serves the stream of events, dead letters, consumers and notifications.
package event

import (
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of events.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Stream  *stream.Server
	Chain   *middleware.Chain
}
