package server

import (
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/internal/version"
)

// metricsHandler is served on a port of its own, on loopback by default, because metrics name nodes.
func (s *Server) metricsHandler() http.Handler {
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(), s.bus)
	s.metrics.MustRegister(s.collectors()...)
	if s.storage != nil {
		if requests, observed := s.storage.Store.(prometheus.Collector); observed {
			s.metrics.MustRegister(requests)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}))
	return telemetry.Traced("gpuaas/metrics", onlyFor(s.cfg.MetricsNames, mux))
}

// pprofHandler is served only if --pprof-listen is set, because profiles expose memory.
func (s *Server) pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return telemetry.Traced("gpuaas/pprof", onlyFor(s.cfg.MetricsNames, mux))
}

// onlyFor rejects requests by another DNS name: a web page whose name resolves to this address
// (DNS rebinding) could read the response otherwise. Addresses and localhost are always accepted.
func onlyFor(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if without, _, err := net.SplitHostPort(name); err == nil {
			name = without
		}
		name = strings.ToLower(strings.Trim(name, "[]"))
		if _, err := netip.ParseAddr(name); err != nil && name != "localhost" && !slices.Contains(names, name) {
			http.Error(w, "the name of this server is not in --metrics-name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpuaas_build_info", Help: "Version of the server."}, []string{"version", "revision"})
	g.WithLabelValues(version.Version, version.Revision()).Set(1)
	return g
}
