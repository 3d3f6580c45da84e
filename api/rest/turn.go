package rest

import (
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// maxTurns is how many requests with large bodies are at work at once. Each may
// hold its body several times over, decoded and checked, and a child process.
const maxTurns = 2

// largeTimeout is what such a request may take to arrive, and again to be answered:
// 24 MiB come in a minute over 4 Mbit/s.
const largeTimeout = time.Minute

// turns holds a token for each of them.
type turns chan struct{}

// takeTurn waits for nobody: whoever finds others at work is told to come again.
// It comes before the body is read, which then need not fit into memory.
func (s *Server) takeTurn(c *gin.Context, r *call) error {
	if r.op.most <= maxBody {
		return nil
	}
	select {
	case s.turns <- struct{}{}:
		r.turn = s.turns
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

// leave gives the turn to the next one.
func (r *call) leave() {
	if r.turn != nil {
		<-r.turn
	}
}
