package server

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
)

// checks lists the health checks of healthz, each after the checks that it depends on.
func (s *Server) checks() []rest.Check {
	checks := []rest.Check{{Name: "postgres", Check: s.askPostgres}, {Name: "nats", Check: s.askNATS}, {Name: "fleet", Check: s.askFleet}, {Name: "storage", Check: s.askStorage}, {Name: "restore", Check: s.askRestore}}
	if s.relay != nil {
		checks = append(checks, rest.Check{Name: "outbox", Check: s.askOutbox})
	}
	if s.sync != nil {
		checks = append(checks, rest.Check{Name: "source", Check: s.askSource})
	}
	return checks
}

func (s *Server) askPostgres(ctx context.Context) (rest.Status, string) {
	if err := s.pool(RoleAPI).Ping(ctx); err != nil {
		return rest.Down, err.Error()
	}
	return rest.OK, ""
}

// askNATS: without the bus facts wait in the outbox; nothing else is lost.
func (s *Server) askNATS(context.Context) (rest.Status, string) {
	if !s.nats.IsConnected() {
		return rest.Degraded, "not connected; events wait in the outbox"
	}
	return rest.OK, ""
}

// outboxLag is far above the lag of a working relay, whatever the backlog.
const outboxLag = 30 * time.Second

func (s *Server) askOutbox(ctx context.Context) (rest.Status, string) {
	backlog, err := s.relay.Pending(ctx)
	if err != nil {
		return rest.Degraded, err.Error()
	}
	for _, b := range backlog {
		if b.OldestFor > outboxLag {
			return rest.Degraded, fmt.Sprintf("%d events of %s wait, the oldest for %s", b.Pending, b.Stream, b.OldestFor.Round(time.Second))
		}
	}
	return rest.OK, ""
}

func (s *Server) askSource(context.Context) (rest.Status, string) {
	if fault := s.sync.Fault(); fault != "" {
		return rest.Degraded, "the last good revision stays: " + fault
	}
	return rest.OK, ""
}

func (s *Server) askFleet(ctx context.Context) (rest.Status, string) {
	silent, all, err := s.services[RoleAPI].Observed.StaleNodes(ctx)
	switch {
	case err != nil:
		return rest.Degraded, err.Error()
	case silent > 0:
		return rest.Degraded, fmt.Sprintf("%d of %d nodes do not report", silent, all)
	}
	return rest.OK, fmt.Sprintf("%d nodes report", all)
}
