package terminal

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// forward passes the websocket of a terminal on to the server that owns it, which consumes the token. It returns false, and has
// not responded, if this server has to respond: the token resumes nothing, or the owner cannot be reached.
func (s *Server) forward(w http.ResponseWriter, r *http.Request) (done bool) {
	token, err := tokenOf(r.Header)
	if err != nil || s.Peer == nil || !strings.HasPrefix(token, terminal.Prefix) {
		return false
	}
	at, found, err := s.Sessions.OwnerOf(r.Context(), token, s.instance)
	if err != nil {
		s.problems.Write(w, r, err)
		return true
	}
	if !found {
		return false
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stops, cancel)() //nolint:contextcheck // the connection ends with the server, too
	done = true
	(&httputil.ReverseProxy{
		Transport: s.Peer(at),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "https", at.Address
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			s.Log.WarnContext(ctx, "the terminal server that owns a session cannot be reached", slog.String("server", at.Address), slog.Any("err", err))
			done = false
		},
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}).ServeHTTP(w, r.WithContext(ctx))
	return done
}

// Forwarded serves the terminals of this server that other servers pass on.
func (s *Server) Forwarded() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /ws/terminal/{allocation}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, terminal.Shell) })
	return telemetry.Traced("gpuaas/terminal", m)
}
