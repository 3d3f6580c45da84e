package middleware

import (
	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
)

// ReplayOrFail responds to a repeated write with the stored response, and to other errors with a
// problem. The use case stores the response in the transaction of its effect and rejects a key that
// exists. A fresh key therefore costs no query (see settled), and the first response stays valid
// whatever a repetition runs into, such as no free slot.
func (s *Chain) ReplayOrFail(c *gin.Context, err error) {
	ctx, r := request.Of(c)
	if r.Key.Key == "" {
		s.Fail(c, err)
		return
	}
	switch first, found, lost := s.Identity.Replay(ctx, r.Key); {
	case lost != nil:
		s.Fail(c, lost)
	case !found:
		s.Fail(c, err)
	default:
		response.Replay(c.Writer, first)
	}
}
