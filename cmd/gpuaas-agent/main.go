// Command gpuaas-agent is the part of GPUaaS that runs on a node. It links no
// database, no queue and no web framework.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/version"
)

const usage = `Usage: gpuaas-agent COMMAND [flags]

Commands:
  run        enrol if needed, then serve this node until it is told to stop
  inventory  print the hardware of this host as JSON
  version    print the version

gpuaas-agent COMMAND -h lists a command's flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

// Exit codes, as of every command of the product.
const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
)

func command(ctx context.Context, args []string, out, errOut io.Writer, env func(string) string) int {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return exitUsage
	}
	var err error
	switch args[0] {
	case "run":
		err = run(ctx, args[1:], errOut, env)
	case "inventory":
		err = inventory(ctx, args[1:], out, errOut, env)
	case "probe": // not for people: a child that looks at what may hang
		err = probe(ctx, args[1:], out)
	case "scrub": // the same, for what may crash
		err = scrubGPU(args[1:], out)
	case "version", "--version":
		_, err = fmt.Fprintf(out, "gpuaas-agent %s, envelope %d, capability %d\n", version.Version, wire.Version, wire.Capability)
	case "help", "-h", "--help":
		_, err = fmt.Fprint(out, usage)
	default:
		fmt.Fprintf(errOut, "Error: no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	var wrong *usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(errOut, "Error: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(errOut, "Error: %v\n", err)
		return exitFail
	}
}

func run(ctx context.Context, args []string, errOut io.Writer, env func(string) string) error {
	s, err := read("run", args, errOut, env)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(errOut, &slog.HandlerOptions{ReplaceAttr: redact.Attr})).With("component", "agent")
	c, err := s.config(log, env)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "agent starts", "version", c.Version, "server", c.Server, "driver", c.Driver)
	return agent.Run(ctx, c)
}

func inventory(ctx context.Context, args []string, out, errOut io.Writer, env func(string) string) error {
	s, err := read("inventory", args, errOut, env)
	if err != nil {
		return err
	}
	if s.Driver == agent.DriverSim {
		return &usageError{errors.New("a simulated host exists only beside its agent: read its report instead")}
	}
	c := agent.Config{Driver: agent.DriverNVIDIA, SMI: s.SMI, Log: slog.New(slog.NewTextHandler(errOut, nil))}
	found, err := agent.Inventory(ctx, c, ids.Node{})
	if err != nil {
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(found)
}
