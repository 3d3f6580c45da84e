package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/riverui"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/api/terminal/logs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/ratelimit"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/web"
)

// serveAPI starts the API for users and service accounts.
func (s *Server) serveAPI(ctx context.Context) error {
	a := s.services[RoleAPI]
	s.offerMounts()
	river, err := riverui.New(ctx, a.Queue, rest.RiverPath, s.cfg.Log)
	if err != nil {
		return err
	}
	policy := identity.PolicyFrom(s.policies)
	config := rest.Config{
		Services: a, Tasks: s.tasks[RoleAPI], Installer: s.installer(),
		Stream:      &stream.Server{Events: a.Events, Hints: s.hints, Log: s.cfg.Log, Clock: s.cfg.Clock},
		Environment: s.cfg.Environment, Profile: s.cfg.Profile, CursorKeys: s.keys.Cursors.Ring, Front: s.cfg.Front,
		Limits: func(class request.Class, c identity.Caller) middleware.Limit {
			return middleware.LimitOf(class, policy(c))
		},
		SharedLimits: ratelimit.Limits{DB: a.DB},
		Ready:        s.pools[RoleAPI].Ping, Restore: s.gate, Checks: s.checks(), RiverUI: readOnly(s.gate, river), Support: s.describe, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}
	config.Terminals, config.Logs = s.terminals, &logs.Remote{Running: a.Terminals.Running, Clock: s.cfg.Clock}
	if s.logs != nil {
		config.Logs = s.logs
	}
	if !s.cfg.WithoutPortal {
		if config.Portal, err = web.NewPortal(); err != nil {
			return err
		}
	}
	s.auth.configure(&config, s.cfg.Profile.Development)
	contract, err := rest.ReadContract()
	if err != nil {
		return err
	}
	api, err := rest.New(contract, config) //nolint:contextcheck // its handlers take the context of the request
	if err != nil {
		return fmt.Errorf("building the API: %w", err)
	}
	if err := errors.Join(s.metrics.Register(api.Metrics()), s.metrics.Register(config.Stream)); err != nil {
		return fmt.Errorf("registering the metrics of the API: %w", err)
	}
	server := api.HTTPServer()
	streams, end := context.WithCancel(context.WithoutCancel(ctx))
	server.BaseContext = func(net.Listener) context.Context { return streams }
	s.group.Go(func() error {
		defer end()
		return serveHTTP(ctx, server, s.apiListener, end)
	})
	s.group.Go(func() error { return api.ShareLimits(ctx) })
	s.serveStorage(ctx, api)
	s.unlessRestored(ctx, s.resealFields)
	s.unlessRestored(ctx, s.revokeEnded)
	return nil
}

// installer makes the commands that install agents from this server.
func (s *Server) installer() fleet.Installer {
	return fleet.Installer{URL: s.nodeURL(), Authority: s.keys.Roots, Digest: func(platform string) (string, error) {
		b, err := s.binaries.Find(platform)
		return b.Digest, err
	}}
}

// nodeURL returns the address of the node API for nodes: its first configured name, at the port of
// this or another process.
func (s *Server) nodeURL() string {
	at := s.cfg.NodeListen
	if s.nodeListener != nil {
		at = s.nodeListener.Addr().String()
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "https://" + at
	}
	if len(s.cfg.NodeHosts) > 0 {
		host = s.cfg.NodeHosts[0]
	}
	return "https://" + net.JoinHostPort(host, port)
}
