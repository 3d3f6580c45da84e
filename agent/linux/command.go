package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// tool is a program of the host. There are no others, and none is looked up.
type tool string

// The programs that this package runs.
const (
	useradd   tool = "/usr/sbin/useradd"
	usermod   tool = "/usr/sbin/usermod"
	userdel   tool = "/usr/sbin/userdel"
	groupadd  tool = "/usr/sbin/groupadd"
	groupdel  tool = "/usr/sbin/groupdel"
	mkfs      tool = "/usr/sbin/mkfs.ext4"
	nft       tool = "/usr/sbin/nft"
	resize2fs tool = "/usr/sbin/resize2fs"
	sshd      tool = "/usr/sbin/sshd"
	systemctl tool = "/usr/bin/systemctl"
	loginctl  tool = "/usr/bin/loginctl"
)

// Tools lists them, for whoever checks a host before it becomes a node.
func Tools() []string {
	return []string{
		string(useradd), string(usermod), string(userdel), string(groupadd), string(groupdel), string(mkfs), string(resize2fs), string(nft), string(sshd), string(systemctl), string(loginctl),
	}
}

const (
	// childWithin is what the longest step may take, a scrub. Every step's
	// own deadline is shorter.
	childWithin = 2 * time.Minute
	// childSays bounds what is kept of what a child prints: a list of units of a
	// large host fits.
	childSays = 1 << 20
)

// commander runs a program to its end.
type commander func(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error)

// command runs a tool. Its arguments are constants, numbers, and what a check of
// this package has passed.
func (h *Host) command(ctx context.Context, t tool, args ...string) ([]byte, error) {
	return h.feed(ctx, t, nil, args...)
}

// feed runs a tool with something to read.
func (h *Host) feed(ctx context.Context, t tool, stdin []byte, args ...string) ([]byte, error) {
	return h.start(ctx, string(t), stdin, args...)
}

// start runs a program that the host's owner has named, too.
func (h *Host) start(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
	if h.run != nil {
		return h.run(ctx, path, stdin, args...)
	}
	return child(ctx, path, stdin, args...)
}

// exitError is a child that ended with a code.
type exitError struct {
	path string
	code int
	says string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s exits %d: %s", e.path, e.code, e.says)
}

// exitCode is the code that a child ended with, 0 for none.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return 0
}

// child starts a program without a shell, in a group of its own, with an
// environment that holds nothing of ours.
func child(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, childWithin)
	defer cancel()
	out, says := &capped{}, &capped{}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // from a constant list
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), out, says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may keep the pipe open
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		// In the kernel's uninterruptible sleep a child outlives even SIGKILL: leave it.
		grace := time.NewTimer(2 * cmd.WaitDelay)
		defer grace.Stop()
		select {
		case err = <-ended:
		case <-grace.C:
			return nil, fmt.Errorf("%s hangs in the kernel: %w", path, ctx.Err())
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s did not end: %w", path, ctx.Err())
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() > 0:
		return out.Bytes(), &exitError{path, cmd.ProcessState.ExitCode(), firstLine(says.String())}
	case err != nil:
		return nil, fmt.Errorf("running %s: %w", path, err)
	case out.full:
		return nil, fmt.Errorf("%s printed more than %d bytes", path, childSays)
	}
	return out.Bytes(), nil
}

// capped keeps the beginning of what is written to it. It has no other way to be
// filled: an embedded buffer would be read into past the bound.
type capped struct {
	kept bytes.Buffer
	full bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := childSays - c.kept.Len()
	c.full = c.full || len(p) > room
	_, _ = c.kept.Write(p[:min(room, len(p))]) // never fails
	return len(p), nil
}

func (c *capped) Bytes() []byte { return c.kept.Bytes() }

func (c *capped) String() string { return c.kept.String() }

// firstLine keeps a message to one line that fits a report.
func firstLine(s string) string {
	const longest = 300
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line[:min(longest, len(line))]
}
