package rest

import (
	"encoding/json"
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// replay answers a repeated write with what the first one was answered. The
// use-case stores the answer in the transaction of its effect and refuses a key
// that is there; so a fresh key costs no look-up, and whatever a repetition runs
// into (no slot left, already releasing), the first answer still stands.
func (s *Server) replay(next oapi.StrictHandlerFunc, _ string) oapi.StrictHandlerFunc {
	return func(c *gin.Context, request any) (any, error) {
		response, err := next(c, request)
		ctx, r := of(c)
		if err == nil || r.key.Key == "" {
			return response, err
		}
		_, body, found, lost := s.Identity.Replay(ctx, r.key)
		switch {
		case lost != nil:
			return nil, lost
		case !found:
			return nil, err
		}
		return again(r, request, body)
	}
}

// again rebuilds the first answer from what was stored with the key.
func again(r *call, request any, stored json.RawMessage) (any, error) {
	var a oapi.Allocation
	if err := json.Unmarshal(stored, &a); err != nil {
		return nil, fmt.Errorf("reading the answer kept for %s: %w", r.op.id, err)
	}
	replayed := "true"
	if _, ok := request.(oapi.ReleaseAllocationRequestObject); ok {
		h := oapi.ReleaseAllocation202ResponseHeaders{Location: locationOf(a), ETag: etagOf(a), IdempotencyReplayed: &replayed}
		return oapi.ReleaseAllocation202JSONResponse{Body: a, Headers: h}, nil
	}
	h := oapi.CreateAllocation201ResponseHeaders{Location: locationOf(a), ETag: etagOf(a), IdempotencyReplayed: &replayed}
	return oapi.CreateAllocation201JSONResponse{Body: a, Headers: h}, nil
}
