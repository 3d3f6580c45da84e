// Package access has the commands that enter allocations: ssh and what builds on it, and the terminal. All of them use
// a websocket of the installation, so that no node needs an address that users can reach.
package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
)

const (
	bearer           = "gpuaas.bearer."
	sshProtocol      = "gpuaas.ssh.v1"
	terminalProtocol = "gpuaas.terminal.v1"
	// maxMessage is twice the largest message of the server.
	maxMessage = 1 << 20
)

// dial opens a websocket of an allocation with a token that is used once.
func dial(ctx context.Context, c *client.Client, id uuid.UUID, request oapi.TerminalTokenRequest, protocol string) (*websocket.Conn, error) {
	made, err := client.Change[oapi.TerminalToken](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.CreateTerminalToken(ctx, id, nil, request, c.InProject, once)
	})
	if err != nil {
		return nil, err
	}
	doer, err := c.Upgrading()
	if err != nil {
		return nil, err
	}
	conn, response, err := websocket.Dial(ctx, made.Value.Url, &websocket.DialOptions{ //nolint:bodyclose // the library closes it, or it is read below
		HTTPClient:   doer,
		HTTPHeader:   http.Header{"X-Correlation-Id": {c.Correlation}},
		Subprotocols: []string{protocol, bearer + base64.RawURLEncoding.EncodeToString([]byte(made.Value.Token))},
	})
	switch {
	case err == nil:
		conn.SetReadLimit(maxMessage)
		return conn, nil
	case response == nil:
		return nil, c.Unreachable(err)
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, client.BodyLimit))
	if refused := c.Problem(response, body); refused != nil {
		return nil, refused
	}
	return nil, fmt.Errorf("opening the websocket: %w", err)
}
