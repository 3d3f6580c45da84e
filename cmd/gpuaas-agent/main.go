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
	"github.com/gpuaas/gpuaas/agent/linux/probe"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/protocol"
)

const usage = `Usage: gpuaas-agent COMMAND [flags]

Commands:
  install    check this node, enrol, and start the agent
  status     print the state of the agent and its faults
  plan       print the next action for each allocation; changes nothing
  doctor     check this node and print suggestions
  inventory  print the hardware of this node as JSON
  version    print the version

Started by systemd:
  network    the process with network access
  helper     the process with root rights
  guard      restores the previous build after a failed update
  run        both in one process, for development

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

// process contains the environment of a command.
type process struct {
	name        string
	args        []string
	in          io.Reader
	out, errOut io.Writer
	env         func(string) string
}

var commands = map[string]func(context.Context, process) error{
	"run": run, "network": network, "helper": helperHalf, "guard": guard, "inventory": inventory,
	"install": install, "status": status, "plan": plan, "doctor": doctor, deviceCommand: openDevice,
	"probe":             runProbe, // not for people: a child for reads that may hang
	"scrub":             scrubGPU, // the same, for what may crash
	probe.InsideCommand: func(_ context.Context, p process) error { return probe.Inside(p.in, p.out) },
	"version":           printVersion, "--version": printVersion, "help": printUsage, "-h": printUsage, "--help": printUsage,
}

func command(ctx context.Context, args []string, out, errOut io.Writer, env func(string) string) int {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return exitUsage
	}
	run, known := commands[args[0]]
	if !known {
		fmt.Fprintf(errOut, "Error: no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	err := run(ctx, process{args[0], args[1:], os.Stdin, out, errOut, env})
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

func printVersion(_ context.Context, p process) error {
	_, err := fmt.Fprintf(p.out, "gpuaas-agent %s, envelope %d, capability %d\n", version.Version, protocol.Version, protocol.Capability)
	return err
}

func printUsage(_ context.Context, p process) error {
	_, err := fmt.Fprint(p.out, usage)
	return err
}

// serving returns the configuration of a command that runs until a signal stops it.
func (p process) serving(ctx context.Context) (agent.Config, error) {
	s, err := read(p.name, p.args, p.errOut, p.env)
	if err != nil {
		return agent.Config{}, err
	}
	log := slog.New(slog.NewJSONHandler(p.errOut, &slog.HandlerOptions{ReplaceAttr: redact.Attr})).With("component", "agent")
	c, err := s.config(log, p.env)
	if err != nil {
		return c, err
	}
	c.Socket, c.Anchor, c.SSHD = agent.SocketIn(s.RunDir), agent.AnchorIn(s.RunDir), agent.SSHDIn(s.RunDir)
	log.InfoContext(ctx, "agent starts", "half", p.name, "version", c.Version, "server", c.Server, "driver", c.Driver)
	return c, nil
}

func run(ctx context.Context, p process) error {
	c, err := p.serving(ctx)
	if err != nil {
		return err
	}
	c.SSHD = ""
	return agent.Run(ctx, c)
}

func network(ctx context.Context, p process) error {
	c, err := p.serving(ctx)
	if err != nil {
		return err
	}
	c.StatusSocket = statusSocket
	return agent.RunNetwork(ctx, c)
}

func helperHalf(ctx context.Context, p process) error {
	c, err := p.serving(ctx)
	if err != nil {
		return err
	}
	if c.PeerUID, c.PeerGID, err = agentUser(); err != nil {
		return err
	}
	return agent.RunHelper(ctx, c)
}

func inventory(ctx context.Context, p process) error {
	s, err := read(p.name, p.args, p.errOut, p.env)
	if err != nil {
		return err
	}
	if s.Driver == agent.DriverSim {
		return &usageError{errors.New("a simulated node exists only in its agent process: read its report instead")}
	}
	c := agent.Config{Driver: agent.DriverNVIDIA, SMI: s.SMI, Log: slog.New(slog.NewTextHandler(p.errOut, nil))}
	found, err := agent.Inventory(ctx, c, ids.Node{})
	if err != nil {
		return err
	}
	return printJSON(p.out, found)
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
