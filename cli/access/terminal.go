package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewTerminal returns the command terminal.
func NewTerminal(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "terminal NAME", Short: "Open a terminal in an allocation", Args: cobra.ExactArgs(1),
		Long: `Opens the same terminal as the portal. It needs no OpenSSH. The session ends when the shell ends, or when the
right to it ends.`,
		Example: "  gpuaas terminal brave-otter",
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			conn, err := dial(cmd.Context(), t.client, t.allocation.Id, oapi.TerminalTokenRequest{Purpose: oapi.TerminalTokenRequestPurposeShell}, terminalProtocol)
			if err != nil {
				return err
			}
			return attach(cmd.Context(), a, conn)
		},
	}
}

// attach connects the terminal of the user with the websocket until one of them ends.
func attach(ctx context.Context, a *output.Console, conn *websocket.Conn) error {
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore, err := raw(ctx, a, conn)
	if err != nil {
		return err
	}
	defer restore()
	go func() {
		if err := copyInput(ctx, conn, a.In); !errors.Is(err, io.EOF) {
			cancel()
		}
	}()
	return show(ctx, a.Out, conn)
}

// raw passes every key of the local terminal on, and its size. A program without one has a size of 80 by 24.
func raw(ctx context.Context, a *output.Console, conn *websocket.Conn) (restore func(), err error) {
	if !a.Terminal {
		return func() {}, resize(ctx, conn, 80, 24)
	}
	local := int(os.Stdin.Fd())
	state, err := term.MakeRaw(local)
	if err != nil {
		return nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH // the first size
	go func() {
		for range changed {
			if columns, rows, err := term.GetSize(local); err == nil && resize(ctx, conn, columns, rows) != nil {
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(changed)
		_ = term.Restore(local, state)
	}, nil
}

// message is a text frame in either direction.
type message struct {
	Type    string `json:"type"`
	Columns int    `json:"columns,omitempty"`
	Rows    int    `json:"rows,omitempty"`
	Status  *int   `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func resize(ctx context.Context, conn *websocket.Conn, columns, rows int) error {
	text, err := json.Marshal(message{Type: "resize", Columns: columns, Rows: rows})
	if err != nil {
		return fmt.Errorf("encoding the size of the terminal: %w", err)
	}
	return conn.Write(ctx, websocket.MessageText, text)
}

// show prints what the terminal prints, and returns when the session has ended.
func show(ctx context.Context, to io.Writer, conn *websocket.Conn) error {
	for {
		kind, data, err := conn.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the other direction is the end
		case err != nil:
			return ended(err)
		case kind == websocket.MessageBinary:
			if _, err := to.Write(data); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
			continue
		}
		var m message
		if json.Unmarshal(data, &m) == nil && m.Type == "exit" {
			return exit(m)
		}
	}
}

// exit returns the status of the shell, or the reason for which the session has ended.
func exit(m message) error {
	switch {
	case m.Status != nil && *m.Status == 0:
		return nil
	case m.Status != nil:
		return &output.CommandError{Silent: true, Exit: max(*m.Status, output.ExitFailure)}
	}
	return endOf(m.Reason, m.Message)
}
