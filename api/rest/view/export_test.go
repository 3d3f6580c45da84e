package view

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
)

// Fill reads a section from a handler that returns of and err.
func Fill(h *Handlers, call *request.Call, of any, err error) (s oapi.Section[oapi.Balance], of4xx error) {
	m := &model{Handlers: h, call: call}
	of4xx = fill(m, &s, "getBalance", nil, func(context.Context, operations) (any, error) { return of, err })
	return s, of4xx
}
