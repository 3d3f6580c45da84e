package terminal

import (
	"context"
	"io"
	"net/http"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// WithHealth adds the health checks of a server that has a listener of its own: /livez responds while the process is alive, and
// /readyz while this server is registered in the database.
func (s *Server) WithHealth(next http.Handler) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { healthy(w) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), watchEvery)
		defer cancel()
		if registered, err := s.Sessions.HasKey(ctx, s.Advertise.Key); err != nil || !registered {
			s.problems.Write(w, r, errs.New(errs.Unavailable, "this server is not registered in the database").Because(err))
			return
		}
		healthy(w)
	})
	checks := telemetry.Traced("gpuaas/health", m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
			checks.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r) // has its own trace
	})
}

func healthy(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, `{"status":"ok"}`)
}
