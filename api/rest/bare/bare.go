// Package bare routes requests to the handlers of the API with nothing before
// them. It is for the bench, which measures what the middlewares add; nothing that
// ships imports it. A caller whom no middleware has found is nobody, and sees
// nothing.
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
