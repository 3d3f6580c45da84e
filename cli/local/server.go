package local

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/server"
)

const serverText = `Runs one or more roles of the server with an existing PostgreSQL (DATABASE_URL) and NATS
(NATS_URL). Any number of servers can run at the same time. The server reads the fleet from
the Git repository that --repository names.`

type serverFlags struct {
	roles, environment, repository, ref, listen, nodeListen, metrics, stateDir, source, level   string
	publicURL, pprof, relayListen, relayAdvertise, terminalListen, storageListen, storageDomain string
	nodeHosts, proxies, metricsNames                                                            []string
	tls                                                                                         server.TLS
}

func NewServer() *cobra.Command {
	var flags serverFlags
	cmd := &cobra.Command{
		Use: "server", Short: "Run the server", Long: serverText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context()) },
	}
	flags.add(cmd)
	return cmd
}

func (f *serverFlags) add(cmd *cobra.Command) {
	to := cmd.Flags()
	to.StringVar(&f.roles, "roles", "api,node,reconcile,work,relay,terminal", "which roles this process has")
	to.StringVar(&f.environment, "environment", "dev", "folder of environments/ with the fleet")
	to.StringVar(&f.repository, "repository", ".", "Git repository of the fleet: a folder or a URL")
	to.StringVar(&f.source, "source-name", sync.DefaultName, "name of that Git source; the profile refers to it for forge and signature verification")
	to.StringVar(&f.ref, "ref", "HEAD", "branch, tag or commit")
	to.StringVar(&f.listen, "listen", net.JoinHostPort("127.0.0.1", orElse(os.Getenv("PORT"), "8080")), "address of the API")
	to.StringVar(&f.publicURL, "public-url", os.Getenv("GPUAAS_PUBLIC_URL"), "external URL of the API, if a proxy terminates TLS")
	to.StringSliceVar(&f.proxies, "trusted-proxy", listOf(os.Getenv("GPUAAS_TRUSTED_PROXIES")), "addresses and networks of proxies whose X-Forwarded-For is trusted")
	to.StringVar(&f.nodeListen, "node-listen", "127.0.0.1:8443", "address of the node API")
	to.StringVar(&f.relayListen, "relay-listen", "127.0.0.1:8444", "address for the connections of agents in role terminal")
	to.StringVar(&f.relayAdvertise, "relay-advertise", "", "name and port at which agents reach --relay-listen of this process; default: its address")
	to.StringVar(&f.terminalListen, "terminal-listen", "127.0.0.1:8081", "address of the websockets of terminals in a process without role api")
	to.StringVar(&f.storageListen, "storage-listen", "", "address of the S3 endpoint in role api; off by default")
	to.StringVar(&f.storageDomain, "storage-domain", "", "domain name of the S3 endpoint, if BUCKET.NAME leads to it too")
	to.StringSliceVar(&f.nodeHosts, "node-host", []string{"localhost", "127.0.0.1"}, "host names of the node API for agents")
	to.StringVar(&f.tls.Cert, "tls-cert", os.Getenv("GPUAAS_TLS_CERT"), "PEM file of the API's certificate chain; without it the API is plain HTTP")
	to.StringVar(&f.tls.Key, "tls-key", os.Getenv("GPUAAS_TLS_KEY"), "PEM file of its private key")
	to.StringVar(&f.tls.ClientCA, "tls-client-ca", os.Getenv("GPUAAS_TLS_CLIENT_CA"), "PEM file of authorities; clients of the API need a certificate of one of them")
	to.StringVar(&f.metrics, "metrics-listen", "127.0.0.1:9090", "address of the metrics")
	to.StringSliceVar(&f.metricsNames, "metrics-name", nil, "DNS names by which the metrics and profiles can be requested, in addition to addresses and localhost")
	to.StringVar(&f.pprof, "pprof-listen", "", "address of profiles of this process; off by default")
	to.StringVar(&f.stateDir, "state-dir", "/var/lib/gpuaas-server", "keys of the authority, of tasks and of cursors")
	to.StringVar(&f.level, "log-level", "", "debug, info, warn or error")
}

func (f serverFlags) run(ctx context.Context) error {
	cfg, err := f.config(ctx)
	if err != nil {
		return err
	}
	server, err := server.Start(ctx, cfg)
	if err != nil {
		return err
	}
	cfg.Log.InfoContext(ctx, "serving", "component", "server", "roles", f.roles)
	select {
	case <-ctx.Done():
	case err = <-server.Failed():
	}
	if stopErr := server.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	return err
}

func (f serverFlags) config(ctx context.Context) (server.Config, error) {
	if os.Getenv("NATS_URL") == "" {
		return server.Config{}, errs.Invalid("NATS_URL", "is not set").Try("gpuaas up runs without it, on the local machine")
	}
	roles, err := server.ParseRoles(f.roles)
	if err != nil {
		return server.Config{}, errs.Invalid("--roles", "%v", err)
	}
	urls, err := roleURLs(roles)
	if err != nil {
		return server.Config{}, err
	}
	if os.Getenv("DATABASE_URL") == "" && len(urls) < len(roles) {
		return server.Config{}, errs.Invalid("DATABASE_URL", "is not set, and not every role has its own GPUAAS_DATABASE_URL_…").Try("gpuaas up runs without it, on the local machine")
	}
	log, err := newLog(f.level, slog.LevelInfo)
	if err != nil {
		return server.Config{}, err
	}
	repo, err := sync.OpenSource(os.Getenv, filepath.Join(f.stateDir, "git"), source.Spec{
		Name: f.source, Location: f.repository, Ref: f.ref, Dirs: []string{"environments/" + f.environment}, AllowPrivate: true, AllowFile: true,
	})
	if err != nil {
		return server.Config{}, err
	}
	source := &sync.Root{Name: f.source, Git: repo}
	profile, err := profileOf(ctx, source)
	if err != nil {
		return server.Config{}, err
	}
	signIn, err := server.SignInFromEnv(os.Getenv)
	if err != nil {
		return server.Config{}, err
	}
	payments, err := server.PaymentsFromEnv(os.Getenv)
	if err != nil {
		return server.Config{}, err
	}
	credentials, err := secretref.CredentialsFromEnv(os.Getenv, f.stateDir)
	if err != nil {
		return server.Config{}, err
	}
	keys, err := keystore.ConfigFromEnv(os.Getenv)
	if err != nil {
		return server.Config{}, err
	}
	front, err := server.ParseFront(f.publicURL, f.proxies)
	if err != nil {
		return server.Config{}, err
	}
	withoutPortal, err := server.WithoutPortalFromEnv(os.Getenv)
	if err != nil {
		return server.Config{}, err
	}
	return server.Config{
		DatabaseURL: os.Getenv("DATABASE_URL"), DatabaseURLs: urls, Roles: roles, Environment: f.environment, Profile: profile,
		NATS:   func() (*nats.Conn, error) { return natsd.Dial(os.Getenv("NATS_URL"), "gpuaas "+f.roles) },
		Listen: f.listen, NodeListen: f.nodeListen, RelayListen: f.relayListen, RelayAdvertise: f.relayAdvertise, TerminalListen: f.terminalListen, StorageListen: f.storageListen, StorageDomain: f.storageDomain, MetricsListen: f.metrics, MetricsNames: f.metricsNames, PprofListen: f.pprof, TLS: f.tls, NodeHosts: f.nodeHosts,
		SignIn: signIn, Payments: payments, Keys: keys, Credentials: credentials, Front: front, AgentDir: os.Getenv("GPUAAS_AGENT_DIR"), AuditArchive: os.Getenv("GPUAAS_AUDIT_ARCHIVE"), WithoutPortal: withoutPortal, StateDir: f.stateDir, Source: source, Log: log, RecentLog: recentLog.Lines,
	}, nil
}

// listOf reads a list that commas part; nothing is no list.
func listOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// roleURLs are the logins that roles of the server have of their own.
func roleURLs(roles []server.Role) (map[server.Role]string, error) {
	urls := map[server.Role]string{}
	for _, r := range roles {
		url, err := secretref.FromEnv(os.Getenv, "GPUAAS_DATABASE_URL_"+strings.ToUpper(string(r)))
		if err != nil {
			return nil, err
		}
		if url != "" {
			urls[r] = url
		}
	}
	return urls, nil
}

// profileOf reads the environment's profile, which names and trust are made by.
// A server does not start on a fleet that was never valid.
func profileOf(ctx context.Context, source *sync.Root) (p desired.Environment, err error) {
	_, objects, findings, err := source.Read(ctx)
	if err != nil {
		return p, err
	}
	if len(findings) > 0 {
		lines := make([]string, len(findings))
		for i, f := range findings {
			lines[i] = f.String()
		}
		return p, errs.New(errs.SpecInvalid, "the fleet has findings:\n%s", strings.Join(lines, "\n"))
	}
	for _, o := range objects {
		if o.Kind == desired.KindEnvironment {
			if err := json.Unmarshal(o.Spec, &p); err != nil {
				return p, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
			}
		}
	}
	return p, nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
