package relay

import (
	"net/http"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// statusOf is the HTTP status of each error code. Agents read the status only.
var statusOf = map[errs.Code]int{
	errs.BadRequest: http.StatusBadRequest, errs.Forbidden: http.StatusForbidden, errs.NotFound: http.StatusNotFound,
	errs.Unavailable: http.StatusServiceUnavailable,
}

// reject responds to an agent whose connection is not accepted.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) {
	status, known := statusOf[errs.CodeOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	s.Log.InfoContext(r.Context(), "connection of an agent rejected", "peer", r.RemoteAddr, "status", status, "err", err)
	w.WriteHeader(status)
}
