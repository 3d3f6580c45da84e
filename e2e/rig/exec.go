package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Command returns a command that runs on the container as root.
func (h *Container) Command(ctx context.Context, args ...string) *exec.Cmd {
	h.mu.Lock()
	r := h.run
	h.mu.Unlock()
	pid := 0 // of no process
	if r != nil {
		pid = r.pid
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(pid), "-a", "--"}, args...)...) //nolint:gosec // what a test asks for
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/root", "TERM=dumb"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // a process that it leaves in the background may have its pipes open
	return cmd
}

// Exec runs a command on the node as root and returns its output.
func (h *Container) Exec(ctx context.Context, args ...string) (string, error) {
	return h.feed(ctx, nil, args...)
}

func (h *Container) feed(ctx context.Context, in []byte, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := h.Command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &out
	group, err := h.group()
	if err != nil {
		return "", err
	}
	defer func() { _ = group.Close() }()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), fmt.Errorf("%s on %s: %w\n%s", strings.Join(args, " "), h.slot.name(), err, out.String())
	}
	return out.String(), nil
}

// group opens a control group of the container. A process started in it is accounted to the container and
// ends with it.
func (h *Container) group() (*os.File, error) {
	var dir string
	for _, group := range h.slot.groups() {
		if strings.HasSuffix(filepath.Dir(group), "/systemd") {
			continue
		}
		// nspawn creates payload if the container has the unified hierarchy.
		if _, err := os.Stat(filepath.Join(group, "payload")); err == nil {
			dir = filepath.Join(group, "payload", "rig.outside")
		}
	}
	if dir == "" {
		return nil, errNotYet
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as systemd makes them
		return nil, fmt.Errorf("making control group: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening control group: %w", err)
	}
	return f, nil
}

// KillGroup ends all processes of a control group. It starts no process.
func (h *Container) KillGroup(name string) error {
	for _, group := range h.slot.groups() {
		err := os.WriteFile(filepath.Join(group, "payload", name, "cgroup.kill"), []byte("1"), 0o600)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("killing %s: %w", name, err)
		}
	}
	return nil
}

// Sh runs a script on the container and returns its output. A script that fails fails the test.
func (h *Container) Sh(t testing.TB, script string, args ...string) string {
	t.Helper()
	out, err := h.feed(t.Context(), nil, append([]string{"sh", "-euc", script, "sh"}, args...)...)
	must(t, err)
	return strings.TrimSpace(out)
}

// Write writes a file on the container and creates its folders.
func (h *Container) Write(ctx context.Context, path string, mode os.FileMode, content []byte) error {
	_, err := h.feed(ctx, content, "install", "-D", "-m", fmt.Sprintf("%o", mode.Perm()), "/dev/stdin", path)
	return err
}

// CopyIn copies a local file and its mode to the container.
func (h *Container) CopyIn(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("copying to a container: %w", err)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying to a container: %w", err)
	}
	return h.Write(ctx, to, info.Mode(), content)
}

// Read returns the content of a file on the container.
func (h *Container) Read(ctx context.Context, path string) (string, error) {
	return h.Exec(ctx, "cat", path)
}

// copyTree copies a local folder to the container.
func (h *Container) copyTree(ctx context.Context, from, to string) error {
	tar, err := exec.CommandContext(ctx, "tar", "-C", from, "-c", ".").Output() //nolint:gosec // a folder of this module
	if err != nil {
		return fmt.Errorf("packing %s: %w", from, err)
	}
	_, err = h.feed(ctx, tar, "sh", "-euc", `mkdir -p "$1"; tar -C "$1" -x`, "sh", to)
	return err
}
