package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/platform/payment/gap"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/product/recovery"
)

// openGate reads whether a restore of the database waits for a confirmation.
func (s *shared) openGate(ctx context.Context, c Config) error {
	db := s.pool(c.Roles[0])
	if node, ok := s.pools[RoleNode]; ok {
		db = node // which stores the reports of nodes
	}
	s.gate = &restore.Gate{DB: db, Log: c.Log}
	if err := s.gate.Refresh(ctx); err != nil {
		return err
	}
	if s.gate.Closed() {
		c.Log.WarnContext(ctx, "the database was restored: this server changes nothing until an operator runs gpuaas restore confirm", "component", "restore")
	}
	return nil
}

// unlessRestored runs a loop of a role, but not while a restore is not confirmed.
func (s *Server) unlessRestored(ctx context.Context, run func(context.Context) error) {
	s.group.Go(func() error { return s.gate.While(ctx, run) })
}

// Restored reports whether a restore of the database waits for a confirmation.
func (s *Server) Restored() bool { return s.gate.Closed() }

// survey queries the foreign systems of the roles that run here while a restore is not confirmed.
func (s *Server) survey(ctx context.Context) {
	if s.relay != nil {
		s.group.Go(func() error {
			return s.gate.Survey(ctx, s.pool(RoleRelay), recovery.PartStreams, func(ctx context.Context, _ restore.Restore) (any, error) {
				ahead, err := s.relay.Ahead(ctx)
				return recovery.Streams{Ahead: ahead}, err
			})
		})
	}
	work := s.services[RoleWork]
	if work == nil || work.Payments.Provider == nil {
		return
	}
	s.group.Go(func() error {
		return s.gate.Survey(ctx, s.pool(RoleWork), recovery.PartPayments, func(ctx context.Context, r restore.Restore) (any, error) {
			return gap.Read(ctx, s.pool(RoleWork), work.Payments.Provider, r.RestoredTo.Add(-overlap), s.cfg.Clock.Now())
		})
	})
}

// overlap is more than the clocks of the database and of the provider differ. Payments that the database knows are not listed.
const overlap = time.Hour

// work runs the workers until ctx ends.
func (s *Server) work(ctx context.Context) error {
	if err := s.jobs.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting the workers: %w", err)
	}
	err := s.followPeriods(ctx)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	if failed := s.jobs.StopAndCancel(stopping); failed != nil {
		return fmt.Errorf("stopping the workers: %w", failed)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readOnly rejects the requests to a handler that may change something, while a restore is not confirmed.
func readOnly(gate *restore.Gate, next http.Handler) http.Handler {
	rejects := unavailable(gate, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		rejects.ServeHTTP(w, r)
	})
}

// unavailable rejects each request to a handler while a restore is not confirmed. A websocket of a terminal is a GET request, and
// changes the work of a tenant.
func unavailable(gate *restore.Gate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate.Closed() {
			w.Header().Set("Retry-After", "60")
			http.Error(w, gate.Message(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) askRestore(context.Context) (rest.Status, string) {
	if message := s.gate.Message(); message != "" {
		return rest.Degraded, message
	}
	return rest.OK, ""
}
