package nvidiasmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// DefaultPath is the path of the tool in the packages of the driver.
	DefaultPath = "/usr/bin/nvidia-smi"
	// within limits a call. Without persistence mode a healthy driver initialises every board first,
	// which needs a few seconds each.
	within = 30 * time.Second
)

// Tool runs nvidia-smi in a child process, so that a driver that hangs or crashes does not affect
// the agent.
type Tool struct {
	Path   string        // absolute; DefaultPath when empty
	Within time.Duration // 30 s when zero
	Log    *slog.Logger

	busy atomic.Bool // a child runs
}

// Inventory runs the tool. If the child hangs, the call abandons it and returns an error: the
// inventory is unknown.
func (t *Tool) Inventory(ctx context.Context) (protocol.Inventory, error) {
	seen, err := t.See(ctx)
	return seen.Inventory, err
}

// See runs the tool and returns everything that it reports.
func (t *Tool) See(ctx context.Context) (gpu.Reading, error) {
	out, err := t.run(ctx, "-q", "-x")
	if err != nil {
		return gpu.Reading{}, err
	}
	seen, err := Read(bytes.NewReader(out))
	if err != nil {
		return gpu.Reading{}, err
	}
	// Boards without NVLink, and old tools, fail here: that is no fault.
	if out, err := t.run(ctx, "nvlink", "-s"); err == nil {
		if links, err := readLinks(bytes.NewReader(out)); err != nil {
			t.Log.WarnContext(ctx, "nvlink state not understood", "err", err)
		} else {
			addNVLinks(&seen, links)
			count(links, seen.GPUs)
		}
	}
	if out, err := t.run(ctx, "topo", "-m"); err == nil {
		addresses := make([]string, len(seen.Cards))
		for i, c := range seen.Cards {
			addresses[i] = c.PCI
		}
		if seen.Peers, err = ParseMatrix(bytes.NewReader(out), addresses); err != nil {
			t.Log.WarnContext(ctx, "matrix of GPUs not understood", "err", err)
		}
	}
	seen.Hostname, err = os.Hostname()
	if err != nil {
		return gpu.Reading{}, fmt.Errorf("reading host name: %w", err)
	}
	return seen, nil
}

func (t *Tool) run(ctx context.Context, args ...string) ([]byte, error) {
	path, limit := t.Path, t.Within
	if path == "" {
		path = DefaultPath
	}
	if limit == 0 {
		limit = within
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s is not an absolute path", path)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	out := &capped{}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // configured by the host's owner, absolute
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may leave the pipe open

	if !t.busy.CompareAndSwap(false, true) {
		return nil, errStuck
	}
	ended := make(chan error, 1)
	go func() {
		defer t.busy.Store(false)
		ended <- cmd.Run()
	}()
	select {
	case err := <-ended:
		return out.result(err, ctx.Err(), limit)
	case <-ctx.Done():
	}
	// A child in uninterruptible sleep survives SIGKILL: abandon it, and start no second one while it
	// exists.
	grace := time.NewTimer(2 * cmd.WaitDelay)
	defer grace.Stop()
	select {
	case err := <-ended:
		return out.result(err, ctx.Err(), limit)
	case <-grace.C:
		return nil, errStuck
	}
}

var (
	errFull  = errors.New("too much output")
	errStuck = errors.New("an earlier nvidia-smi still hangs in the driver")
)

// capped stores maxOutput bytes and then fails the writer, which ends the child by SIGPIPE.
type capped struct {
	output bytes.Buffer
	full   bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.output.Len()+len(p) > maxOutput {
		c.full = true
		return 0, errFull
	}
	return c.output.Write(p)
}

func (c *capped) result(run, late error, limit time.Duration) ([]byte, error) {
	switch {
	case c.full:
		return nil, fmt.Errorf("nvidia-smi printed more than %d bytes", maxOutput)
	case late != nil:
		return nil, fmt.Errorf("nvidia-smi did not respond in %s: %w", limit, late)
	case run != nil:
		return nil, fmt.Errorf("running nvidia-smi: %w", run)
	case c.output.Len() == 0:
		return nil, errNoOutput
	}
	return c.output.Bytes(), nil
}

// Reset resets one device. The tool fails while a process uses the device, and on boards whose links
// connect it to others.
func (t *Tool) Reset(ctx context.Context, gpu string) error {
	if !uuid.MatchString(gpu) {
		return fmt.Errorf("%.60q is not the UUID of a GPU", gpu)
	}
	_, err := t.run(ctx, "--gpu-reset", "-i", gpu)
	if errors.Is(err, errNoOutput) {
		return nil
	}
	return err
}
