// Package up runs a whole installation on the local machine: a private PostgreSQL, NATS in process,
// every role of the server, an OpenID provider, doubles for payments and e-mail, development tenants with users of
// every role, and simulated nodes with real agents. It is for development and evaluation.
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/server"
)

// freePortOf returns an address with a free port and the name of the node API, which agents reach.
func freePortOf(nodeListen string) string {
	host, _, err := net.SplitHostPort(nodeListen)
	if err != nil {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, "0")
}

// Config is the configuration of an installation.
type Config struct {
	Dir         string // the data directory
	Environment string // folder of environments/
	Repository  string // its path; empty: the working directory
	Listen      string
	NodeListen  string
	RelayListen string
	Metrics     string
	// StorageListen is the address of the S3 endpoint.
	StorageListen string
	// IssuerListen is the address of the development issuer.
	IssuerListen string
	// PaymentsListen is the address of the development payment provider.
	PaymentsListen string
	// MailListen is the address of the page with the e-mails.
	MailListen string
	SimNodes   int // simulated nodes to run; negative: as many as are declared
	// SimShell starts the SSH servers of simulated nodes also if a listener is not on loopback. They run shells on this
	// computer.
	SimShell  bool
	Processes bool // one agent process each, instead of all in this one
	Headless  bool // print no screen
	Reset     bool // begin with an empty data directory
	ReadyFile string
	Profile   string // name of the client profile to write
	// Observability starts the Prometheus of this computer.
	Observability bool

	Out io.Writer
	Log *slog.Logger
	// RecentLog returns the last lines of the log, for support bundles.
	RecentLog func() []byte
}

// InvalidError rejects a fleet with findings, each at its place.
type InvalidError struct{ Findings []desired.Finding }

func (e *InvalidError) Error() string {
	if len(e.Findings) == 1 {
		return "the fleet has a finding; nothing was started"
	}
	return fmt.Sprintf("the fleet has %d findings; nothing was started", len(e.Findings))
}

// installation contains the running parts of an installation.
type installation struct {
	cfg     Config
	source  *sync.Root
	objects []desired.Object
	commit  string
	profile desired.Environment

	cluster    *pgcluster.Cluster
	bus        *natsd.Server
	issuer     *provider   // nil where the environment names another
	payments   *payments   // nil where the environment has a key, or payments are off
	prometheus *prometheus // nil without --observability
	mail       *mailbox    // nil where the profile names another mail server
	server     *server.Server
	seed       seeded
	fleet      *fleet
}

// Run starts an installation and runs it until ctx ends or a part of it fails. The data stays.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Reset {
		if err := reset(cfg.Dir); err != nil {
			return err
		}
	}
	if err := cfg.checkPrometheus(); err != nil {
		return err
	}
	i := &installation{cfg: cfg}
	defer i.stop(context.WithoutCancel(ctx))
	if err := i.start(ctx); err != nil {
		return err
	}
	return i.wait(ctx)
}

// start starts all parts in sequence. Reading the fleet and starting the database are the slowest
// and independent, so they run in parallel.
func (i *installation) start(ctx context.Context) error {
	dir, err := filepath.Abs(i.cfg.Dir)
	if err != nil {
		return fmt.Errorf("naming the data directory: %w", err)
	}
	i.cfg.Dir = dir
	var both errgroup.Group
	both.Go(func() error { return i.readFleet(ctx) })
	both.Go(func() error { return i.startDatabase(ctx) })
	if err := both.Wait(); err != nil {
		return err
	}
	if i.bus, err = natsd.Start(natsd.Config{Dir: filepath.Join(dir, "nats"), Log: i.cfg.Log}); err != nil {
		return err
	}
	signIn, err := i.startIssuer(ctx)
	if err != nil {
		return err
	}
	payments, err := i.startPayments(ctx)
	if err != nil {
		return err
	}
	if err := i.startMail(ctx); err != nil {
		return err
	}
	credentials, err := secretref.CredentialsFromEnv(os.Getenv, filepath.Join(dir, "secrets"))
	if err != nil {
		return err
	}
	withoutPortal, err := server.WithoutPortalFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	i.server, err = server.Start(ctx, server.Config{
		DatabaseURL: i.cluster.URL(), DatabaseURLs: i.roleURLs(),
		NATS:  func() (*nats.Conn, error) { return i.bus.Connect("gpuaas") },
		Roles: server.AllRoles(), Environment: i.cfg.Environment, Profile: i.profile,
		Listen: i.cfg.Listen, NodeListen: i.cfg.NodeListen, RelayListen: cmp.Or(i.cfg.RelayListen, freePortOf(i.cfg.NodeListen)), MetricsListen: i.cfg.Metrics, StorageListen: i.cfg.StorageListen, Roam: true,
		NodeHosts: nodeHosts(i.cfg.NodeListen), SignIn: signIn, Payments: payments, Credentials: credentials,
		AuditArchive: filepath.Join(dir, "audit"), ObjectsDir: filepath.Join(dir, "objects"), WithoutPortal: withoutPortal,
		StateDir: filepath.Join(dir, "secrets"), GitDir: filepath.Join(dir, "git"), Source: i.source, Log: i.cfg.Log, RecentLog: i.cfg.RecentLog,
	})
	if err != nil {
		return err
	}
	i.publishAgent(ctx)
	if i.issuer != nil {
		i.issuer.SetClients(i.issuer.clients(i.server.URL()))
	}
	if i.payments != nil {
		i.payments.SetWebhook(i.server.URL() + webhookPath)
	}
	if err := i.apply(ctx); err != nil {
		return err
	}
	if i.seed, err = i.seedTenant(ctx); err != nil {
		return err
	}
	if i.fleet, err = i.startFleet(ctx); err != nil {
		return err
	}
	if err := i.startPrometheus(ctx); err != nil {
		return err
	}
	return i.announce(ctx)
}

// nodeHosts returns the names of the node API's certificate: the listen address for other
// computers, and the names of the local machine. Nodes use the first.
func nodeHosts(listen string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" && !slices.Contains(names, host) {
		names = slices.Insert(names, 0, host)
	}
	return names
}

// roleURLs log every role in as itself, so that the superuser serves nothing.
func (i *installation) roleURLs() map[server.Role]string {
	urls := map[server.Role]string{}
	for _, r := range server.AllRoles() {
		urls[r] = i.cluster.URLAs(r.DatabaseRole())
	}
	return urls
}

// dirMode lets the database's own user reach its folder below; what is secret in
// here has tighter modes of its own.
const dirMode = 0o755

func (i *installation) startDatabase(ctx context.Context) (err error) {
	if err := os.MkdirAll(i.cfg.Dir, dirMode); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	i.cluster, err = pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(i.cfg.Dir, "postgres"), Durable: true, Log: i.cfg.Log})
	if errs.CodeOf(err) == errs.Conflict {
		return errs.New(errs.Conflict, "another gpuaas up already runs on %s", i.cfg.Dir).
			Try("stop it, or start this one with another --data-dir").Because(err)
	}
	return err
}

// wait waits for the end: a stop request, or an error without a recovery.
func (i *installation) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	database := make(chan error, 1)
	go func() { database <- i.cluster.Supervise(ctx) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-database:
		if err != nil {
			return fmt.Errorf("PostgreSQL does not restart (see %s): %w", i.cluster.LogFile(), err)
		}
		return nil
	case err := <-i.server.Failed():
		return err
	case err := <-i.fleet.ended:
		return err
	}
}

// stopWithin bounds each part of a stop.
const stopWithin = 15 * time.Second

// stop stops the parts, each before the parts that it uses.
func (i *installation) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	if i.fleet != nil {
		i.fleet.stop()
	}
	var err error
	if i.server != nil {
		err = i.server.Stop(ctx)
	}
	if i.issuer != nil {
		err = errors.Join(err, i.issuer.stop(ctx))
	}
	if i.payments != nil {
		err = errors.Join(err, i.payments.stop(ctx))
	}
	if i.mail != nil {
		err = errors.Join(err, i.mail.stop(ctx))
	}
	if i.prometheus != nil {
		err = errors.Join(err, i.prometheus.stop(ctx))
	}
	if i.bus != nil {
		i.bus.Stop()
	}
	if i.cluster != nil {
		err = errors.Join(err, i.cluster.Stop(pgcluster.Fast))
	}
	if i.cfg.ReadyFile != "" && i.server != nil {
		_ = os.Remove(i.cfg.ReadyFile)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		i.cfg.Log.WarnContext(ctx, "stopping", "component", "up", "err", err)
	}
}

// reset deletes a data directory. It rejects a folder that is not one.
func reset(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
		return errs.Invalid("--reset", "%s is not a data directory of gpuaas up; nothing was removed", dir)
	}
	if err := pgcluster.Idle(filepath.Join(dir, "postgres")); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}
