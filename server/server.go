package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/api/terminal/logs"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/product/storage/blob/open"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// Server is a started server.
type Server struct {
	*shared

	cfg   Config
	nats  *nats.Conn
	bus   *busMetrics
	relay *event.Relay
	sync  *sync.Syncer
	stop  context.CancelFunc
	group *errgroup.Group
	// metrics contains the collectors of each role that has started.
	metrics *prometheus.Registry

	endTraces func(context.Context) error
	started   time.Time

	apiListener, nodeListener, relayListener, terminalListener, storageListener, metricsListener, pprofListener net.Listener

	terminals       http.Handler // websockets of the role terminal; nil without it
	terminalMetrics *terminal.Metrics
	logs            *logs.Local // logs of nodes; nil without the role terminal

	storage *open.Monitor // the object store; nil without the roles that use it
}

// collectAt lets the heap grow to four times what lives in it. That is tens of
// megabytes here, and by default a seventh of a busy server's time went to
// collecting it.
const collectAt = 300

// Start starts the roles in order: schema, bus, policies, services, listeners. It returns when
// every listener accepts connections.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	s := &Server{cfg: cfg, metrics: prometheus.NewRegistry(), started: cfg.Clock.Now()}
	if s.endTraces, err = telemetry.Start(ctx, telemetry.Service{Name: "gpuaas", Version: version.Version, Environment: cfg.Environment}); err != nil {
		return nil, err
	}
	hints := &hint.Bus{}
	if cfg.DatabaseURL != "" {
		if err := prepare(ctx, &cfg); err != nil {
			return nil, err
		}
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
	if cfg.DatabaseURL == "" {
		if err := prepared(ctx, &cfg, pools[cfg.Roles[0]]); err != nil {
			return nil, err
		}
	}
	s.cfg = cfg
	if err := errors.Join(cfg.TLS.check(), cfg.Payments.check(ctx, cfg), cfg.checkMail(ctx)); err != nil {
		return nil, err
	}
	if s.storage, err = cfg.openStorage(ctx); err != nil {
		return nil, err
	}
	if s.nats, err = cfg.NATS(); err != nil {
		return nil, err
	}
	s.bus = &busMetrics{s.nats}
	if err := checkNATSRights(ctx, s.nats, cfg.Roles); err != nil {
		return nil, err
	}
	if err := forwardHints(ctx, hints, s.nats); err != nil {
		return nil, err
	}
	if s.shared, err = build(ctx, cfg, s.blobs(), pools, hints, s.publicURL, s.mountURL); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, s.run(context.WithoutCancel(ctx))
}

// open opens all listeners before anything runs, so that a port in use is an error and not a
// half-started server.
func (s *Server) open(ctx context.Context) (err error) {
	for _, listener := range []struct {
		role    Role
		address string
		to      *net.Listener
	}{
		{RoleAPI, s.cfg.Listen, &s.apiListener},
		{RoleNode, s.cfg.NodeListen, &s.nodeListener},
		{RoleTerminal, s.cfg.RelayListen, &s.relayListener},
		{RoleTerminal, s.ownTerminalListen(), &s.terminalListener},
		{RoleAPI, s.cfg.StorageListen, &s.storageListener},
		{"", s.cfg.MetricsListen, &s.metricsListener},
		{"", s.cfg.PprofListen, &s.pprofListener},
	} {
		if listener.role != "" && !s.cfg.hasRole(listener.role) || listener.address == "" {
			continue
		}
		if *listener.to, err = Listen(ctx, listener.address, s.cfg.Roam); err != nil {
			return err
		}
	}
	for _, public := range []*net.Listener{&s.apiListener, &s.terminalListener, &s.storageListener} {
		if s.cfg.TLS.Cert == "" || *public == nil {
			continue
		}
		encrypted, err := newTLSListener(*public, s.cfg.TLS)
		if err != nil {
			return err
		}
		*public = encrypted
	}
	return nil
}

// ownTerminalListen returns the address of the listener of websockets, or nothing where they share that of the API.
func (s *Server) ownTerminalListen() string {
	if s.cfg.hasRole(RoleAPI) {
		return ""
	}
	return s.cfg.TerminalListen
}

// abandon closes what a failed start has opened.
func (s *Server) abandon() {
	if s.stop != nil {
		s.stop()
	}
	for _, l := range []net.Listener{s.apiListener, s.nodeListener, s.relayListener, s.terminalListener, s.storageListener, s.metricsListener, s.pprofListener} {
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
	group.Go(func() error { return s.policies.Run(ctx) })
	group.Go(func() error { return s.watchKeys(ctx) })
	group.Go(func() error { return s.gate.Watch(ctx) })
	s.unlessRestored(ctx, s.publishOwn)
	if s.storage != nil {
		group.Go(func() error { s.storage.Run(ctx); return nil })
	}
	for _, one := range s.services {
		group.Go(func() error { return one.Identity.Run(ctx) })
	}
	group.Go(func() error { return serveInternal(ctx, s.metricsListener, s.metricsHandler()) })
	if s.pprofListener != nil {
		group.Go(func() error { return serveInternal(ctx, s.pprofListener, s.pprofHandler()) })
	}
	for _, public := range []net.Listener{s.apiListener, s.terminalListener, s.storageListener} {
		if encrypted, ok := public.(*tlsListener); ok {
			group.Go(func() error { return s.watchTLS(ctx, encrypted) })
		}
	}
	if s.cfg.hasRole(RoleReconcile) {
		s.startLoop(ctx)
	}
	if s.cfg.hasRole(RoleRelay) {
		js, err := natsd.JetStream(s.nats)
		if err != nil {
			return err
		}
		s.relay = &event.Relay{DB: s.pool(RoleRelay), JS: js, Hints: s.hints, Environment: s.cfg.Environment, Retention: event.RetentionFrom(s.policies), Log: s.cfg.Log, Clock: s.cfg.Clock}
		s.metrics.MustRegister(event.Metrics{Relay: s.relay})
		s.unlessRestored(ctx, s.relay.Run)
	}
	if s.cfg.hasRole(RoleWork) {
		s.unlessRestored(ctx, s.work)
		if err := s.startConsumers(ctx); err != nil {
			return err
		}
	}
	s.survey(ctx)
	if s.cfg.hasRole(RoleNode) {
		group.Go(func() error { return s.serveNodes(ctx) })
	}
	if s.cfg.hasRole(RoleTerminal) {
		if err := s.startTerminals(ctx); err != nil {
			return err
		}
	}
	if s.cfg.hasRole(RoleAPI) {
		return s.serveAPI(ctx)
	}
	return nil
}

// startLoop starts the control loop and, where a source is configured, its sync.
func (s *Server) startLoop(ctx context.Context) {
	r := s.services[RoleReconcile]
	loop := &reconciler.Loop{
		DB: s.pools[RoleReconcile], Jobs: s.jobs, Desired: r.Desired.Store, Hints: s.hints, Limits: reconciler.LimitsFrom(s.policies),
		Naming: s.cfg.naming(), Metrics: s.drift, Log: s.cfg.Log,
	}
	s.unlessRestored(ctx, loop.Run)
	if s.cfg.Source == nil {
		return
	}
	r.Reports.Jobs = s.jobs
	s.sync = &sync.Syncer{
		Desired: r.Desired, Change: r.Changes, Reports: r.Reports, Root: *s.cfg.Source,
		Environment: s.cfg.Environment, Development: s.cfg.Profile.Development, Dir: s.cfg.gitDir(), Rules: sync.RulesFrom(s.policies), Credentials: s.cfg.Credentials,
		Naming: s.cfg.naming(), Metrics: sync.NewMetrics(), Hints: s.hints, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}
	r.Desired.Record = s.sync.Record
	s.metrics.MustRegister(s.sync.Metrics)
	s.unlessRestored(ctx, s.sync.Run)
}

// forwardHints sends hints to other processes and receives theirs. Both ways may lose some.
func forwardHints(ctx context.Context, hints *hint.Bus, nc *nats.Conn) error {
	self := ids.New[ids.Object]().String()
	hints.Forward = hint.Merge(ctx, func(topic string) { _ = nc.Publish(hintSubject+topic, []byte(self)) })
	_, err := nc.Subscribe(hintSubject+">", func(m *nats.Msg) {
		if string(m.Data) != self { // this server has already notified its own waiters
			hints.Wake(m.Subject[len(hintSubject):])
		}
	})
	if err != nil {
		return fmt.Errorf("listening for hints: %w", err)
	}
	return nil
}

const hintSubject = "hint."

// Failed receives the error of the first role that ends by itself.
func (s *Server) Failed() <-chan error {
	c := make(chan error, 1)
	go func() { c <- s.group.Wait() }()
	return c
}

// drainFor is the time for accepted requests to end.
const drainFor = 10 * time.Second

// Stop ends the server in the sequence that loses nothing: listeners, workers, bus, database.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	s.stop()
	err := s.group.Wait()
	s.nats.Close()
	closeAll(s.pools)
	if lost := s.endTraces(ctx); lost != nil {
		s.cfg.Log.WarnContext(ctx, "last traces not sent", "component", "server", "err", lost)
	}
	return err
}

// URL returns the address of the API.
func (s *Server) URL() string { return s.urlOf(s.apiListener) }

// mountURL returns the URL at which nodes reach the S3 endpoint, or an empty one. The nodes of a development installation are
// on this computer.
func (s *Server) mountURL() string {
	if u := s.cfg.Profile.Storage.S3URL; u != "" || !s.cfg.Profile.Development {
		return u
	}
	return s.StorageURL()
}

// StorageURL returns the address of the S3 endpoint; empty without one.
func (s *Server) StorageURL() string {
	if s.storageListener == nil {
		return ""
	}
	return s.urlOf(s.storageListener)
}

func (s *Server) urlOf(l net.Listener) string {
	scheme := "http://"
	if s.cfg.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + l.Addr().String()
}

// NodeURL returns the address of the node API.
func (s *Server) NodeURL() string { return "https://" + s.nodeListener.Addr().String() }

// MetricsURL returns the address of the metrics.
func (s *Server) MetricsURL() string {
	return "http://" + s.metricsListener.Addr().String() + "/metrics"
}

// CA returns the certificates by which agents trust the node API.
func (s *Server) CA() []byte { return s.keys.Roots.Bundle() }

// headerWithin is the time for a client to send its header.
const headerWithin = 5 * time.Second

// serveInternal serves metrics or profiles.
func serveInternal(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerWithin, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	return serveHTTP(ctx, server, l, func() {})
}

// publicURL returns the address under which browsers reach this server. It is called while the
// server listens.
func (s *Server) publicURL() string {
	if at := s.cfg.Front.URL; at != nil {
		return strings.TrimSuffix(at.String(), "/")
	}
	return s.URL()
}

// Services returns the services with the rights of a role that runs here, or nil. An installation
// for development uses them to create its first objects.
func (s *Server) Services(r Role) *services.Services { return s.services[r] }

// Sync applies the present tree of the configured source and returns its revision.
func (s *Server) Sync(ctx context.Context) (revision.Revision, error) {
	if err := s.gate.Err(); err != nil {
		return revision.Revision{}, err
	}
	return s.sync.Sync(ctx)
}
