package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/platform/restore"
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && gate.Closed() {
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
