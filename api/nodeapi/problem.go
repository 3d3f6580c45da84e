package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/protocol"
)

// statusOf is the HTTP status of each error code of the node API. A code that is not listed results
// in 500, because the node API should not return it.
var statusOf = map[errs.Code]int{
	errs.BadRequest: 400, errs.ValidationError: 400, errs.UnknownParameter: 400,
	errs.CertificateRequired: 401, errs.EnrolmentTokenInvalid: 401,
	errs.NodeIdentityMismatch: 403, errs.CertificateRevoked: 403, errs.Forbidden: 403,
	errs.NotFound: 404,
	errs.Conflict: 409, errs.StaleFence: 409, errs.StaleReport: 409, errs.TaskSuperseded: 409,
	errs.BodyTooLarge: 413, errs.MediaTypeUnsupported: 415, errs.SpecInvalid: 422,
	errs.RateLimited: 429, errs.Unavailable: 503, errs.AdmissionClosed: 503,
}

// answer runs a handler and turns its error into a problem.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, who caller, handle func() error) {
	w.Header().Set("Cache-Control", "no-store")
	err := handle()
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		// The caller has left. Without the panic net/http would respond with 200, which acknowledges a result.
		panic(http.ErrAbortHandler)
	}
	s.reject(w, r, who, err)
}

func (s *Server) reject(w http.ResponseWriter, r *http.Request, who caller, err error) {
	problem := protocol.Problem{Code: string(errs.Internal), Message: "the server failed", CorrelationID: w.Header().Get(telemetry.CorrelationHeader)}
	status := http.StatusInternalServerError
	if coded, ok := errors.AsType[*errs.Error](err); ok {
		if known, ok := statusOf[coded.Code]; ok {
			status = known
			problem.Code, problem.Message = string(coded.Code), coded.Message
			if coded.Field != "" {
				problem.Message = coded.Field + ": " + coded.Message
			}
		}
	}
	if acked, ok := errors.AsType[ackedError](err); ok {
		problem.Ack = acked.ack
	}
	log := s.Log.With("correlation_id", problem.CorrelationID, "node", who.Node, "path", r.URL.Path, "code", problem.Code, "err", err)
	if status >= http.StatusInternalServerError {
		log.WarnContext(r.Context(), "node call failed")
	} else {
		log.InfoContext(r.Context(), "node request rejected")
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		w.Header().Set("Connection", "close") // the peer must connect again, with another certificate
	}
	s.write(w, r, status, problem)
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // our own types always encode
		s.Log.ErrorContext(r.Context(), "reply not encoded", "err", err)
		status, text = http.StatusInternalServerError, nil
	}
	lateWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		s.Log.DebugContext(r.Context(), "reply not sent", "err", err)
	}
}

// done sends a response without a body.
func (s *Server) done(w http.ResponseWriter) {
	lateWrite(w)
	w.WriteHeader(http.StatusNoContent)
}

// lateWrite sets the write deadline, so that a peer that does not read cannot block a goroutine for
// ever. It is set for each response, because the connection still has the deadline of the previous
// one.
func lateWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(wall().Add(writeWithin)) // httptest's recorder does not support deadlines
}

// wall returns the system time. The operating system compares socket deadlines with it, so an
// injected clock would be wrong here.
func wall() time.Time { return clock.Clock{}.Now() }

func notFound(http.ResponseWriter, *http.Request, caller) error {
	return errs.New(errs.NotFound, "no such call")
}
