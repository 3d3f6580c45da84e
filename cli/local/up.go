package local

import (
	"errors"
	"fmt"
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

const upText = `Starts a private PostgreSQL, NATS, every role of the server and a fleet of
simulated nodes that are real agents, and stays until Ctrl-C.

Inside a checkout the fleet is read from Git: the tree of HEAD, or the work tree
when it holds uncommitted changes. Elsewhere the files inside the binary are used.`

func NewUp() *cobra.Command {
	cfg := up.Config{}
	var agents, level string
	cmd := &cobra.Command{
		Use: "up", Short: "Run everything on this machine", Long: upText, Args: cobra.NoArgs,
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
			cfg.Processes, cfg.Log, cfg.Out = agents == "processes", log, cmd.OutOrStdout()
			return explain(cmd, up.Run(cmd.Context(), cfg))
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "data-dir", ".gpuaas", "where everything is kept")
	f.StringVar(&cfg.Environment, "environment", "dev", "folder of environments/ that declares the fleet")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "address of the API; port 0 takes a free one, a taken port moves to the next")
	f.StringVar(&cfg.NodeListen, "node-listen", "127.0.0.1:8443", "address of the node door")
	f.StringVar(&cfg.Metrics, "metrics-listen", "127.0.0.1:9090", "address of the metrics")
	f.StringVar(&cfg.IssuerListen, "issuer-listen", "127.0.0.1:8180", "address of the development issuer; loopback names only")
	f.StringVar(&cfg.PaymentsListen, "payments-listen", "127.0.0.1:8280", "address of the development payment provider; loopback names only")
	f.IntVar(&cfg.SimNodes, "sim-nodes", -1, "simulated nodes to run (-1: those that are declared)")
	f.StringVar(&agents, "agents", "shared", "shared: all agents in this process; processes: one each")
	f.BoolVar(&cfg.Headless, "headless", false, "print no screen")
	f.BoolVar(&cfg.Reset, "reset", false, "begin with an empty data directory")
	f.StringVar(&cfg.ReadyFile, "ready-file", "", "write addresses as JSON here once everything answers")
	f.StringVar(&cfg.Profile, "profile-name", "default", "client profile to write")
	f.StringVar(&level, "log-level", "", "debug, info, warn or error")
	return cmd
}

// explain prints the findings of a refused fleet, each at its place.
func explain(cmd *cobra.Command, err error) error {
	var invalid *up.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	for _, f := range invalid.Findings {
		fmt.Fprintln(cmd.ErrOrStderr(), f)
	}
	return errs.New(errs.SpecInvalid, "%s", invalid.Error()).Try("mend the places above; gpuaas validate checks them without starting anything")
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
		return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
	}
	return slog.New(Logged.Urgent(slog.NewJSONHandler(Logged, options))), nil
}

// Logged is what servers say: there is one place for it.
var Logged = telemetry.NewLogWriter(os.Stderr)
