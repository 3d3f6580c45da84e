package access

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// shellSessions is less than the MaxSessions of a node, so that the user can still log in over the same connection.
	shellSessions = 6
	// problemSize bounds what a command in an allocation may report.
	problemSize = 4 << 10
)

// Shell runs commands in an allocation over one SSH connection.
type Shell struct {
	Client *ssh.Client
	Name   string // of the allocation

	sessions chan struct{}
}

// OpenShell connects with an allocation as gpuaas ssh does.
func OpenShell(ctx context.Context, a *output.Console, name string) (*Shell, error) {
	t, err := find(ctx, a, name)
	if err != nil {
		return nil, err
	}
	if err := t.prepare(ctx, false); err != nil {
		return nil, err
	}
	client, _, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	return NewShell(client, name), nil
}

// NewShell returns a shell over an open connection.
func NewShell(client *ssh.Client, name string) *Shell {
	return &Shell{Client: client, Name: name, sessions: make(chan struct{}, shellSessions)}
}

// Close ends the connection.
func (s *Shell) Close() error { return s.Client.Close() }

// Run runs a command of sh. Its error has the exit status and what the command has printed about it.
func (s *Shell) Run(ctx context.Context, command string, in io.Reader, out io.Writer) error {
	select {
	case s.sessions <- struct{}{}:
		defer func() { <-s.sessions }()
	case <-ctx.Done():
		return ctx.Err()
	}
	session, err := s.Client.NewSession()
	if err != nil {
		return s.failed(err, "")
	}
	defer session.Close() //nolint:errcheck // it may have ended
	// A command that waits for its input or for a reader of its output would never end.
	defer context.AfterFunc(ctx, func() { _ = session.Close() })()
	problems := &bounded{}
	session.Stdin, session.Stdout, session.Stderr = in, out, problems
	err = session.Run("exec sh -c " + Quote(command))
	if stopped := ctx.Err(); stopped != nil {
		return stopped
	}
	if err != nil {
		return s.failed(err, problems.String())
	}
	return nil
}

func (s *Shell) failed(err error, problems string) error {
	cause := err.Error()
	if ended, ok := errors.AsType[*ssh.ExitError](err); ok {
		cause = fmt.Sprintf("a command ended with %d", ended.ExitStatus())
	}
	return &output.CommandError{
		Message: "the allocation " + s.Name + ": " + output.CellText(cmp.Or(output.OneLine(strings.TrimSpace(problems)), cause)), Code: string(errs.Unavailable), Try: "gpuaas ssh " + s.Name, Exit: output.ExitFailure,
	}
}

// Quote returns a text as one argument of sh.
func Quote(text string) string { return quote(text) }

// bounded stores the beginning of what is written.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), max(0, problemSize-b.Len()))])
	return len(p), nil
}
