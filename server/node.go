package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
)

// serveNodes serves the node API.
func (s *Server) serveNodes(ctx context.Context) error {
	n := s.services[RoleNode]
	every := &periods{policies: s.policies, names: n.Fleet.NamesOf, log: s.cfg.Log}
	platform := func() policies.View { return s.policies.Latest().For() }
	leases := &observed.Leases{DB: n.DB, Clock: s.cfg.Clock, Log: s.cfg.Log, StaleAfter: func() time.Duration { return staleAfter(platform()) }, Excluded: every.hasOwn}
	in := s.intake(leases, every)
	api := &nodeapi.Server{
		TrustDomain: s.cfg.Profile.TrustDomain, Hosts: s.cfg.NodeHosts, CA: s.keys.Authority, Statements: s.keys.Statements, Trusted: s.keys.Sets,
		Nodes: in, Tasks: in, Reports: in, Relays: relayrequest.Store{DB: n.DB}, MountKeys: n.StorageKeys, Hints: s.hints, Log: s.cfg.Log, Clock: s.cfg.Clock,
		CertificateFor: func() time.Duration {
			return time.Duration(platform().Int(policies.NodeCertificateTTLHours)) * time.Hour
		},
		Binaries: s.binaries, Builds: s.builds,
		ReportEvery: func(node ids.Node) time.Duration { return reportEvery(every.view(node)) },
	}
	// The leases outlive the node API: reports that arrive while it drains are stored, too.
	renewed, end := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	defer writers.Wait()
	defer end()
	writers.Go(func() { leases.Run(renewed) })
	writers.Go(func() { every.run(renewed) })
	return api.Serve(ctx, s.nodeListener)
}

// intake accepts what nodes send.
func (s *Server) intake(leases *observed.Leases, every *periods) *nodeapi.Intake {
	n := s.services[RoleNode]
	return &nodeapi.Intake{
		DB: n.DB, Tasks: s.tasks[RoleNode], Observed: &observed.Store{DB: n.DB, Leases: leases, Telemetry: &observed.Telemetry{DB: n.DB, Clock: s.cfg.Clock}},
		Inventory: n.NodeHealth, Certificates: n.Certificates, Hints: s.hints, Clock: s.cfg.Clock, Log: s.cfg.Log, Metrics: s.reportMetrics, Restore: s.gate,
		StaleAfter: func(node ids.Node) time.Duration { return staleAfter(every.view(node)) },
	}
}

// streamsEndAfter gives short responses the time to end by themselves. Event streams never would.
const streamsEndAfter = 500 * time.Millisecond

// serveHTTP serves until ctx ends, then waits for accepted requests and ends the streams.
func serveHTTP(ctx context.Context, server *http.Server, l net.Listener, endStreams func()) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	timer := time.AfterFunc(streamsEndAfter, endStreams)
	defer timer.Stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("draining %s: %w", l.Addr(), err)
	}
	return nil
}
