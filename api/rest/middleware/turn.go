package middleware

import (
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// maxTurns limits the requests with large bodies that are in progress at once. Each may need memory
// for several copies of its body, decoded and validated, and for a child process.
const maxTurns = 2

// largeTimeout limits the upload of such a request, and again its processing and response. 24 MiB
// arrive within a minute at 4 Mbit/s.
const largeTimeout = time.Minute

// takeTurn rejects a request with a large body while others are in progress. It runs before the body is
// read, so that the bodies fit into memory.
func (s *Chain) takeTurn(c *gin.Context, r *request.Call) error {
	if r.Op.MaxBody <= request.MaxBody || r.Op.Stream {
		return nil
	}
	select {
	case s.turns <- struct{}{}:
		r.Turn = s.turns
	default:
		return errs.New(errs.Unavailable, "%d changes of this size are in progress", maxTurns).Try("repeat the request in a moment")
	}
	control := http.NewResponseController(c.Writer)
	now := s.Clock.Now()
	for _, err := range []error{control.SetReadDeadline(now.Add(largeTimeout)), control.SetWriteDeadline(now.Add(2 * largeTimeout))} {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return errs.New(errs.Unavailable, "the connection broke off").Because(err)
		}
	}
	return nil
}

// leave ends the turn of a request.
func leave(r *request.Call) {
	if r.Turn != nil {
		<-r.Turn
	}
}
