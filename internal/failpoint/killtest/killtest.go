// Package killtest runs the binary of a test as a child process, which failpoints can kill: the death of a process ends its test.
package killtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Main runs the tests. In a child, where the variable is set, it runs do with its value instead. TestMain calls it.
func Main(m *testing.M, variable string, do func(ctx context.Context, value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		os.Exit(m.Run())
	}
	if err := do(context.Background(), value); err != nil { //nolint:forbidigo // the child has no other context
		fmt.Fprintln(os.Stderr, value, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns the command of a child with more variables.
func Command(ctx context.Context, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$") //nolint:gosec // the program of the test itself
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// Child is a process that ends at a failpoint the first time it is reached.
type Child struct {
	Point string // empty: it does not end early
	Env   []string
	Hits  string // the file with the points that were reached
}

// New returns a child of a test.
func New(t testing.TB, point string, env ...string) *Child {
	t.Helper()
	return &Child{point, env, filepath.Join(t.TempDir(), "hits")}
}

// Run runs the child to its end, and returns its output. The test fails unless the child succeeds or is killed.
func (c *Child) Run(ctx context.Context, t testing.TB) (out string, killed bool) {
	t.Helper()
	cmd := Command(ctx, c.Env...)
	if c.Point != "" {
		cmd.Env = append(cmd.Env, "GPUAAS_FAILPOINT="+c.Point, "GPUAAS_FAILPOINT_LOG="+c.Hits)
	}
	var printed bytes.Buffer
	cmd.Stderr = &printed
	text, err := cmd.Output()
	if err == nil {
		return string(text), false
	}
	if ended, is := errors.AsType[*exec.ExitError](err); is && ctx.Err() == nil && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL { //nolint:forcetypeassert // of Unix
		return string(text), true
	}
	t.Fatalf("%v\n%s%s", err, text, printed.Bytes())
	return "", false
}
