// Package money serves balance, usage, ledger, statements, payments, refunds and spend limits.
package money

import (
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/services"
	"github.com/gpuaas/gpuaas/web"
)

// Handlers implements the operations of money.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Exports response.Exports
	Chain   *middleware.Chain
	Pages   *page.Writer
}

var paymentPage, statementPage = web.MustPage("payment"), web.MustPage("statement")
