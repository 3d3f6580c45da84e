// Package bare routes requests without any middleware: those of the API for the benchmark, which
// measures the cost of the middlewares, and those of the portal for the tests of its layout. No
// released program imports it. Callers are anonymous and can read nothing.
package bare

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/portal"
	"github.com/gpuaas/gpuaas/web"
)

// Handler answers by the handlers of s alone.
func Handler(s oapi.StrictServerInterface) http.Handler {
	e := gin.New()
	e.ContextWithFallback = true
	oapi.RegisterHandlers(e, oapi.NewStrictHandler(s, nil))
	return e
}

// Portal serves the portal alone.
func Portal(p *web.Portal) http.Handler {
	e := gin.New()
	portal.Mount(e, p, func(c *gin.Context) { http.NotFound(c.Writer, c.Request) })
	return e
}
