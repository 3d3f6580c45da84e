package update

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// The units of the agent. The timer of the guard is enabled, so that it also runs after a restart
// of the node. Its service does nothing without an attempt.
const (
	networkUnit = "gpuaas-agent.service"
	helperUnit  = "gpuaas-agent-helper.service"
	guardTimer  = "gpuaas-agent-guard.timer"
)

// Systemd is the service manager of a node.
type Systemd struct{}

// Restart queues the restart of both processes. systemd does not start a unit that has failed too
// often in a row, so Restart resets that state first.
func (s Systemd) Restart(ctx context.Context) error {
	if _, err := s.control(ctx, "reset-failed", helperUnit, networkUnit); err != nil {
		return err
	}
	_, err := s.control(ctx, "--no-block", "restart", helperUnit, networkUnit)
	return err
}

// Arm starts the guard timer again.
func (s Systemd) Arm(ctx context.Context) error {
	_, err := s.control(ctx, "restart", guardTimer)
	return err
}

// Disarm ends it. The timer stays enabled.
func (s Systemd) Disarm(ctx context.Context) error {
	_, err := s.control(ctx, "--no-block", "stop", guardTimer)
	return err
}

// Why returns the state of the two halves, for the reason of a roll-back.
func (s Systemd) Why(ctx context.Context) string {
	var states []string
	for _, unit := range []string{helperUnit, networkUnit} {
		out, err := s.control(ctx, "show", "--property=ActiveState,SubState,Result,ExecMainStatus,NRestarts", "--value", unit)
		if err != nil {
			continue
		}
		states = append(states, unit+": "+strings.Join(strings.Fields(out), " "))
	}
	return strings.Join(states, "; ")
}

// systemctl is given this long; a restart is only queued.
const controlWithin = 20 * time.Second

func (Systemd) control(ctx context.Context, args ...string) (string, error) {
	// The command does not use ctx: the restart that it requests ends ctx, and would end the
	// command.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/systemctl", args...) //nolint:gosec // of this package's own choice
	cmd.Env, cmd.Dir = []string{"LC_ALL=C"}, "/"
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
