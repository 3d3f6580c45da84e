package access

import (
	"context"
	"io"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// stdio connects stdin and stdout with the sshd of an allocation, as a ProxyCommand of ssh.
func stdio(ctx context.Context, a *output.Console, c *client.Client, id uuid.UUID) error {
	conn, err := dial(ctx, c, id, oapi.TerminalTokenRequest{Purpose: oapi.TerminalTokenRequestPurposeSsh}, sshProtocol)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // ssh has ended
		_ = copyInput(ctx, conn, a.In)
	}()
	return copyOutput(ctx, a.Out, conn)
}

// inputSize is the size of most writes of ssh.
const inputSize = 32 << 10

func copyInput(ctx context.Context, conn *websocket.Conn, from io.Reader) error {
	buffer := make([]byte, inputSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := conn.Write(ctx, websocket.MessageBinary, buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// copyOutput returns the reason for which the server has closed the connection. Messages in text are not of SSH.
func copyOutput(ctx context.Context, to io.Writer, conn *websocket.Conn) error {
	for {
		kind, from, err := conn.Reader(ctx)
		out := to
		if kind != websocket.MessageBinary {
			out = io.Discard
		}
		if err == nil {
			_, err = io.Copy(out, from)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil, websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			return nil //nolint:nilerr // the end of the other direction is the end
		default:
			return ended(err)
		}
	}
}
