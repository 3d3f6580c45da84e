package health

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

func bytesReader(text []byte) io.Reader { return bytes.NewReader(text) }

const (
	// mostPrinted is above the topology of 256 devices.
	mostPrinted = 4 << 20
	// letGo is the time that the agent waits for a child after SIGKILL.
	letGo = 2 * time.Second
)

var errHangs = errors.New("the child hangs and cannot be killed")

// Start runs a program to its end and returns what it printed. When ctx ends the
// child and its children are killed; one that cannot be, in a driver's sleep, is
// left behind.
func Start(ctx context.Context, path string, args ...string) ([]byte, error) {
	out := &bytes.Buffer{}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // this program, or one that the host's owner named
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdout = &limitedWriter{out, mostPrinted}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may leave the pipe open
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	select {
	case err := <-ended:
		return result(ctx, out, err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(letGo)
	defer grace.Stop()
	select {
	case err := <-ended:
		return result(ctx, out, err)
	case <-grace.C:
		return nil, errHangs
	}
}

func result(ctx context.Context, out *bytes.Buffer, err error) ([]byte, error) {
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the child process did not respond in time: %w", ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("running the child: %w", err)
	}
	return out.Bytes(), nil
}

// longestLine limits a line that a child prints.
const longestLine = 4 << 10

// Follow runs a program and passes each line that it prints to each, until the program or ctx ends. The
// program ends with this process, because its standard input is then closed.
func Follow(ctx context.Context, each func(line []byte), path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // this program
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.WaitDelay = time.Second
	if _, err := cmd.StdinPipe(); err != nil { // closed by the end of this process only
		return fmt.Errorf("starting the child: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the child: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the child: %w", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		each(lines.Bytes())
	}
	if lines.Err() != nil {
		_ = cmd.Process.Kill() // else it waits for a reader
	}
	return errors.Join(lines.Err(), cmd.Wait())
}

type limitedWriter struct {
	into *bytes.Buffer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errors.New("the output of the child process is too long")
	}
	w.left -= len(p)
	return w.into.Write(p)
}
