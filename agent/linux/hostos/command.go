package hostos

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

// Tool is the absolute path of a program of the host OS. The package runs no other programs and
// does not search PATH.
type Tool string

// The programs that this package runs.
const (
	Useradd   Tool = "/usr/sbin/useradd"
	Usermod   Tool = "/usr/sbin/usermod"
	Userdel   Tool = "/usr/sbin/userdel"
	Groupadd  Tool = "/usr/sbin/groupadd"
	Groupdel  Tool = "/usr/sbin/groupdel"
	Mkfs      Tool = "/usr/sbin/mkfs.ext4"
	Nft       Tool = "/usr/sbin/nft"
	Resize2fs Tool = "/usr/sbin/resize2fs"
	SSHD      Tool = "/usr/sbin/sshd"
	Systemctl Tool = "/usr/bin/systemctl"
	Loginctl  Tool = "/usr/bin/loginctl"
	// Journalctl is run by Follow.
	Journalctl Tool = "/usr/bin/journalctl"
	// Rclone and Fusermount mount stored objects. A node without them sells no mounts.
	Rclone     Tool = "/usr/bin/rclone"
	Fusermount Tool = "/usr/bin/fusermount3"
	// Mkdir and Grep are run by the units of mounts.
	Mkdir Tool = "/usr/bin/mkdir"
	Grep  Tool = "/usr/bin/grep"
)

// Tools lists the programs, for the check of a host OS before enrolment.
func Tools() []string {
	return []string{
		string(Useradd), string(Usermod), string(Userdel), string(Groupadd), string(Groupdel), string(Mkfs), string(Resize2fs), string(Nft), string(SSHD), string(Systemctl), string(Loginctl), string(Journalctl),
	}
}

const (
	// childWithin exceeds the longest step, a scrub. The limit of every step is shorter.
	childWithin = 2 * time.Minute
	// childSays limits the stored output of a child. A list of units of a large node fits.
	childSays = 1 << 20
)

// Commander runs a program to its end.
type Commander func(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error)

// Command runs a tool. Its arguments are constants, numbers, and what a check of
// this package has passed.
func (o *OS) Command(ctx context.Context, t Tool, args ...string) ([]byte, error) {
	return o.Feed(ctx, t, nil, args...)
}

// Feed runs a tool with standard input.
func (o *OS) Feed(ctx context.Context, t Tool, stdin []byte, args ...string) ([]byte, error) {
	return o.Start(ctx, string(t), stdin, args...)
}

// Start runs a program, also one that the configuration of the node names.
func (o *OS) Start(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
	if o.Run != nil {
		return o.Run(ctx, path, stdin, args...)
	}
	return Child(ctx, path, stdin, args...)
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

// ExitCode is the code that a child ended with, 0 for none.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return 0
}

func environment() []string {
	return []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
}

// Child starts a program without a shell, in its own process group, with an environment that
// contains no variable of the agent.
func Child(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, childWithin)
	defer cancel()
	out, says := &Capped{}, &Capped{}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // from a constant list
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), out, says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may leave the pipe open
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
		return out.Bytes(), &exitError{path, cmd.ProcessState.ExitCode(), FirstLine(says.String())}
	case err != nil:
		return nil, fmt.Errorf("running %s: %w", path, err)
	case out.full:
		return nil, fmt.Errorf("%s printed more than %d bytes", path, childSays)
	}
	return out.Bytes(), nil
}

// Capped stores the beginning of the bytes written to it. It implements only Write: an embedded
// buffer would offer ReadFrom, which bypasses the limit.
type Capped struct {
	output bytes.Buffer
	full   bool
}

func (c *Capped) Write(p []byte) (int, error) {
	room := childSays - c.output.Len()
	c.full = c.full || len(p) > room
	_, _ = c.output.Write(p[:min(room, len(p))]) // never fails
	return len(p), nil
}

func (c *Capped) Bytes() []byte { return c.output.Bytes() }

func (c *Capped) String() string { return c.output.String() }

// FirstLine shortens a message to one line that fits a report.
func FirstLine(s string) string {
	const longest = 300
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line[:min(longest, len(line))]
}
