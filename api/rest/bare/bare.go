// Package bare routes requests to the handlers of the API without any middleware. It is for the
// benchmark, which measures the cost of the middlewares; no released program imports it. Callers
// are anonymous and can read nothing.
package bare

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// Handler answers by the handlers of s alone.
func Handler(s oapi.StrictServerInterface) http.Handler {
	e := gin.New()
	e.ContextWithFallback = true
	oapi.RegisterHandlers(e, oapi.NewStrictHandler(s, nil))
	return e
}
