// Package local contains the commands that run on the local machine: up, server, doctor, init, tour, dev.
package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/dev/up"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

const upText = `Starts a private PostgreSQL, NATS, every role of the server and a fleet of simulated nodes with
real agents, and runs until Ctrl-C.

Inside a checkout the server reads the fleet from Git: the tree of HEAD, or the work tree if it
contains uncommitted changes. Elsewhere it uses the files inside the binary.`

func NewUp() *cobra.Command {
	cfg := up.Config{}
	var agents, level string
	cmd := &cobra.Command{
		Use: "up", Short: "Run a complete installation on the local machine", Long: upText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if agents != "shared" && agents != "processes" {
				return errs.Invalid("--agents", "is shared or processes, not %q", agents)
			}
			if cfg.SimNodes < -1 {
				return errs.Invalid("--sim-nodes", "is -1 or more, not %d", cfg.SimNodes)
			}
			log, err := newLog(level, slog.LevelWarn)
			if err != nil {
				return err
			}
			cfg.Processes, cfg.Log, cfg.RecentLog, cfg.Out = agents == "processes", log, recentLog.Lines, cmd.OutOrStdout()
			return explain(cmd, up.Run(cmd.Context(), cfg))
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "data-dir", ".gpuaas", "data directory")
	f.StringVar(&cfg.Environment, "environment", "dev", "folder of environments/ with the fleet")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "address of the API; port 0 selects a free port, a used port the next free one")
	f.StringVar(&cfg.NodeListen, "node-listen", "127.0.0.1:8443", "address of the node API")
	f.StringVar(&cfg.RelayListen, "relay-listen", "", "address for the connections of agents to terminals; default: a free port at the address of --node-listen")
	f.BoolVar(&cfg.SimShell, "sim-shell", false, "shells of simulated nodes run on this computer, also while a listener is not on loopback")
	f.StringVar(&cfg.Metrics, "metrics-listen", "127.0.0.1:9090", "address of the metrics")
	f.StringVar(&cfg.IssuerListen, "issuer-listen", "127.0.0.1:8180", "address of the development issuer; loopback names only")
	f.StringVar(&cfg.StorageListen, "storage-listen", "127.0.0.1:8480", "address of the S3 endpoint")
	f.StringVar(&cfg.MailListen, "mail-listen", "127.0.0.1:8380", "address of the page with the e-mails; loopback names only")
	f.StringVar(&cfg.PaymentsListen, "payments-listen", "127.0.0.1:8280", "address of the development payment provider; loopback names only")
	f.IntVar(&cfg.SimNodes, "sim-nodes", -1, "number of simulated nodes (-1: the nodes of the fleet)")
	f.StringVar(&agents, "agents", "shared", "shared: all agents in this process; processes: one each")
	f.BoolVar(&cfg.Observability, "observability", false, "run the Prometheus of this computer, with the alerts and pages with the dashboards")
	f.BoolVar(&cfg.Headless, "headless", false, "print no screen")
	f.BoolVar(&cfg.Reset, "reset", false, "begin with an empty data directory")
	f.StringVar(&cfg.ReadyFile, "ready-file", "", "file for the addresses as JSON, written after the start")
	f.StringVar(&cfg.Profile, "profile-name", "default", "client profile to write")
	f.StringVar(&level, "log-level", "", "debug, info, warn or error")
	return cmd
}

// explain prints the findings of an invalid fleet with their positions.
func explain(cmd *cobra.Command, err error) error {
	var invalid *up.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	for _, f := range invalid.Findings {
		fmt.Fprintln(cmd.ErrOrStderr(), f)
	}
	return errs.New(errs.SpecInvalid, "%s", invalid.Error()).Try("correct the findings above; gpuaas validate checks the files without a start")
}

// newLog writes for people on a terminal and JSON elsewhere.
func newLog(level string, quiet slog.Level) (*slog.Logger, error) {
	at := quiet
	if level != "" {
		if err := at.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
			return nil, errs.Invalid("--log-level", "is debug, info, warn or error, not %q", level)
		}
	}
	options := &slog.HandlerOptions{Level: at, ReplaceAttr: redact.Attr}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(telemetry.Correlated(slog.NewTextHandler(io.MultiWriter(os.Stderr, recentLog), options))), nil
	}
	return slog.New(telemetry.Correlated(Logged.Urgent(slog.NewJSONHandler(Logged, options)))), nil
}

// Logged writes the log of all servers of this process to stderr.
var Logged = telemetry.NewLogWriter(io.MultiWriter(os.Stderr, recentLog))

// recentLog has the last lines of the log.
var recentLog = &telemetry.Recent{}
