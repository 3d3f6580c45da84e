package server

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/api/terminal/logs"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	sessions "github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/services"
)

// startTerminals starts the listener for the connections of agents, and the websockets of terminals. The API serves the
// websockets on its listener where it runs in this process.
func (s *Server) startTerminals(ctx context.Context) error {
	if s.relayListener == nil {
		return errors.New("role terminal needs an address for the connections of agents: set --relay-listen")
	}
	t := s.services[RoleTerminal]
	agents := &relay.Server{
		Address: s.relayAddress(), TrustDomain: s.cfg.Profile.TrustDomain, Roots: s.keys.Roots, Certificates: t.Certificates,
		Requests: relayrequest.Store{DB: t.DB}, Signer: s.keys.Relay, Hints: s.hints, HasKey: t.Terminals.HasKey, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}
	key, err := agents.Key()
	if err != nil {
		return err
	}
	t.Terminals.May = request.RightTo("createTerminalToken", func() policies.RoleTable { return s.policies.Latest().Roles })
	shells := &terminal.Server{
		Sessions: t.Terminals, Recordings: t.Recordings, Sign: services.LoginSigner(s.keys.Logins), LoginLife: allocation.LoginLifeFrom(s.policies), PublicURL: s.publicURL,
		Advertise: sessions.Instance{Address: agents.Address, Key: key}, Hints: s.hints, Metrics: terminal.NewMetrics(), Log: s.cfg.Log, Clock: s.cfg.Clock,
		Peer: func(at sessions.Instance) http.RoundTripper { return agents.Peer(at.Address, at.Key) },
		Dial: func(ctx context.Context, to terminal.Target) (net.Conn, error) {
			return agents.Dial(ctx, relay.Target{Node: to.Node, Allocation: to.Allocation, Fence: to.Fence, Trace: to.Trace, Kind: protocol.StreamSSH})
		},
	}
	if err := shells.Start(ctx); err != nil {
		return err
	}
	s.logs = &logs.Local{Streams: t.Logs, Dial: agents.Dial, Log: s.cfg.Log, Clock: s.cfg.Clock}
	agents.Terminals, agents.Internal = shells.Forwarded(), s.logs
	s.terminalMetrics = shells.Metrics
	s.metrics.MustRegister(shells.Metrics, agents)
	s.unlessRestored(ctx, s.resealRecordings)
	s.group.Go(func() error { return agents.Serve(ctx, s.relayListener) })
	s.group.Go(func() error { return shells.Run(ctx) })
	s.terminals = s.cfg.Front.Handler(unavailable(s.gate, shells.Handler()))
	if s.cfg.hasRole(RoleAPI) {
		return nil
	}
	server := middleware.NewHTTPServer(shells.WithHealth(s.terminals), s.cfg.Log)
	s.group.Go(func() error { return serveHTTP(ctx, server, s.terminalListener, func() {}) })
	return nil
}

// relayAddress returns the address at which agents reach this process.
func (s *Server) relayAddress() string {
	if s.cfg.RelayAdvertise != "" {
		return s.cfg.RelayAdvertise
	}
	at := s.relayListener.Addr().String()
	host, port, err := net.SplitHostPort(at)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() && len(s.cfg.NodeHosts) > 0 {
		return net.JoinHostPort(s.cfg.NodeHosts[0], port)
	}
	return at
}
