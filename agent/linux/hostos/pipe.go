package hostos

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Follow starts a program as Child does, and passes its output to read while it runs. The program ends when read returns or ctx
// ends.
func Follow(ctx context.Context, t Tool, read func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	says := &Capped{}
	cmd := exec.CommandContext(ctx, string(t), args...) //nolint:gosec // from a constant list
	cmd.Dir, cmd.Env, cmd.Stderr = "/", environment(), says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running %s: %w", t, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("running %s: %w", t, err)
	}
	failed := read(out)
	stopped := failed != nil || ctx.Err() != nil
	if stopped {
		cancel()
	}
	err = cmd.Wait()
	switch {
	case failed != nil:
		return failed
	case stopped, ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &exitError{string(t), cmd.ProcessState.ExitCode(), FirstLine(says.String())}
	}
	return nil
}
