package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/reconciler"
)

// Server is a started server.
type Server struct {
	cfg   Config
	rooms *rooms
	nats  *nats.Conn
	relay *event.Relay
	sync  *sync.Syncer
	stop  context.CancelFunc
	group *errgroup.Group
	// figures takes what each role counts, as the role starts.
	figures *prometheus.Registry

	endTraces func(context.Context) error

	apiListener, nodeListener, metricsListener net.Listener
}

// collectAt lets the heap grow to four times what lives in it. That is tens of
// megabytes here, and by default a seventh of a busy server's time went to
// collecting it.
const collectAt = 300

// Start brings the roles up in order: schema, bus, policies, rooms, listeners.
// It returns when every door answers.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	s := &Server{cfg: cfg, figures: prometheus.NewRegistry()}
	if s.endTraces, err = telemetry.Start(ctx, telemetry.Service{Name: "gpuaas", Version: version.Version, Environment: cfg.Environment}); err != nil {
		return nil, err
	}
	if err := cfg.Payments.check(ctx, cfg); err != nil {
		return nil, err
	}
	hints := &hint.Bus{}
	if err := prepare(ctx, cfg); err != nil {
		return nil, err
	}
	pools, err := openPools(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.abandon()
			closeAll(pools)
		}
	}()
	if s.nats, err = cfg.NATS(); err != nil {
		return nil, err
	}
	if err := carry(hints, s.nats); err != nil {
		return nil, err
	}
	if s.rooms, err = furnish(ctx, cfg, pools, hints, s.publicURL); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, s.run(context.WithoutCancel(ctx))
}

// open takes the ports before anything runs, so that a taken one is a refusal
// and not a half-started server.
func (s *Server) open(ctx context.Context) (err error) {
	for _, door := range []struct {
		role    Role
		address string
		to      *net.Listener
	}{{RoleAPI, s.cfg.Listen, &s.apiListener}, {RoleNode, s.cfg.NodeListen, &s.nodeListener}, {"", s.cfg.MetricsListen, &s.metricsListener}} {
		if door.role != "" && !s.cfg.has(door.role) {
			continue
		}
		if *door.to, err = Listen(ctx, door.address, s.cfg.Roam); err != nil {
			return err
		}
	}
	return nil
}

// abandon lets go of what a failed start has taken.
func (s *Server) abandon() {
	if s.stop != nil {
		s.stop()
	}
	for _, l := range []net.Listener{s.apiListener, s.nodeListener, s.metricsListener} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.nats != nil {
		s.nats.Close()
	}
}

// run starts each role as one goroutine that ends with the server, not with the
// context of its start.
func (s *Server) run(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	s.group = group
	r := s.rooms
	group.Go(func() error { return r.policy.client.Run(ctx) })
	group.Go(func() error { return s.watchKeys(ctx) })
	group.Go(func() error { s.publishOwn(ctx); return nil })
	for _, one := range r.sets {
		group.Go(func() error { return one.identity.Run(ctx) })
	}
	group.Go(func() error { return s.serveMetrics(ctx) })
	if s.cfg.has(RoleReconcile) {
		loop := &reconciler.Loop{
			DB: r.pool(RoleReconcile), Jobs: r.jobs, Desired: r.sets[RoleReconcile].desired, Hints: r.hints, Limits: r.policy.loop,
			Naming: s.cfg.naming(), Figures: r.drift, Log: s.cfg.Log,
		}
		group.Go(func() error { return loop.Run(ctx) })
		if s.cfg.Source != nil {
			s.sync = s.follower()
			group.Go(func() error { return s.sync.Run(ctx) })
		}
	}
	if s.cfg.has(RoleRelay) {
		js, err := natsd.JetStream(s.nats)
		if err != nil {
			return err
		}
		s.relay = &event.Relay{DB: r.pool(RoleRelay), JS: js, Hints: r.hints, Environment: s.cfg.Environment, Log: s.cfg.Log, Clock: s.cfg.Clock}
		group.Go(func() error { return s.relay.Run(ctx) })
	}
	if s.cfg.has(RoleWork) {
		if err := r.jobs.Start(ctx); err != nil {
			return fmt.Errorf("starting the workers: %w", err)
		}
		group.Go(func() error { return r.paces(ctx) })
	}
	if s.cfg.has(RoleNode) {
		group.Go(func() error { return s.serveNodes(ctx) })
	}
	if s.cfg.has(RoleAPI) {
		return s.serveAPI(ctx)
	}
	return nil
}

// carry lets hints reach other processes, and theirs reach this one. Both ways
// may lose them.
func carry(hints *hint.Bus, nc *nats.Conn) error {
	self := ids.New[ids.Object]().String()
	hints.Forward = func(topic string) { _ = nc.Publish(hintSubject+topic, []byte(self)) }
	_, err := nc.Subscribe(hintSubject+">", func(m *nats.Msg) {
		if string(m.Data) != self { // ours has woken whom it could
			hints.Wake(m.Subject[len(hintSubject):])
		}
	})
	if err != nil {
		return fmt.Errorf("listening for hints: %w", err)
	}
	return nil
}

const hintSubject = "hint."

// Wait returns when the server has ended, with the reason if it was not asked to.
func (s *Server) Wait() error { return s.group.Wait() }

// Failed is closed by the first role that ends by itself.
func (s *Server) Failed() <-chan error {
	c := make(chan error, 1)
	go func() { c <- s.group.Wait() }()
	return c
}

// drainFor is how long what has been accepted may take to be answered.
const drainFor = 10 * time.Second

// Stop ends the server in the order that loses nothing: doors, workers, bus,
// database.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	s.stop()
	err := s.group.Wait()
	if s.cfg.has(RoleWork) {
		if stopErr := stopJobs(ctx, s.rooms.jobs); err == nil {
			err = stopErr
		}
	}
	s.nats.Close()
	closeAll(s.rooms.pools)
	if lost := s.endTraces(ctx); lost != nil {
		s.cfg.Log.WarnContext(ctx, "last traces not sent", "component", "server", "err", lost)
	}
	return err
}

func stopJobs(ctx context.Context, c *river.Client[pgx.Tx]) error {
	if err := c.StopAndCancel(ctx); err != nil {
		return fmt.Errorf("stopping the workers: %w", err)
	}
	return nil
}

// URL is where the API answers.
func (s *Server) URL() string { return "http://" + s.apiListener.Addr().String() }

// NodeURL is where agents are answered.
func (s *Server) NodeURL() string { return "https://" + s.nodeListener.Addr().String() }

// MetricsURL is where the metrics are read.
func (s *Server) MetricsURL() string {
	return "http://" + s.metricsListener.Addr().String() + "/metrics"
}

// CA is the bundle that agents believe the node door by.
func (s *Server) CA() []byte { return s.rooms.custody.Authority.Bundle() }

// headerWithin is how long a client may take to say what it wants.
const headerWithin = 5 * time.Second

func (s *Server) serveMetrics(ctx context.Context) error {
	server := &http.Server{Handler: s.metrics(), ReadHeaderTimeout: headerWithin, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	return serveHTTP(ctx, server, s.metricsListener, func() {})
}
