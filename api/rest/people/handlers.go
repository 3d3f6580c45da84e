// Package people serves users, tenants, projects, members, service accounts, keys and sessions.
package people

import (
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations of users, tenants and projects.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
}
