package terminal

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/product/terminal"
)

// Close codes. The standard codes are 1000 for a session that ended by itself, 1008 for a message that breaks the protocol, 1009
// for one that is too large, 1012 for a restart and 1013 for what the client can try again.
const (
	closeRights  websocket.StatusCode = 4401 // the sign-in ended, or a right was lost
	closeGone    websocket.StatusCode = 4404 // the session or its allocation is gone
	closeIdle    websocket.StatusCode = 4408
	closeTakenBy websocket.StatusCode = 4409 // another window has the session
)

// maxMessage limits a message of a client, and maxControl one of text.
const (
	maxMessage = 64 << 10
	maxControl = 1 << 10
)

func closeCode(r terminal.Reason) websocket.StatusCode {
	switch r {
	case terminal.Exited, terminal.Closed:
		return websocket.StatusNormalClosure
	case terminal.SignedOut, terminal.UserDisabled, terminal.RightLost:
		return closeRights
	case terminal.Idle:
		return closeIdle
	case terminal.AllocationEnded, terminal.EndedByUser, terminal.EndedByOperator, terminal.Disconnected, terminal.Lost,
		terminal.RecordingFull, terminal.RecordingRequired:
		return closeGone
	case terminal.Restarted:
		return websocket.StatusServiceRestart
	case terminal.Slow, terminal.NodeUnavailable, terminal.ConnectFailed, terminal.StreamLost, terminal.Unavailable, terminal.RecordingFailed:
	}
	return websocket.StatusTryAgainLater
}

// message is a text message of either side.
type message struct {
	Type     string          `json:"type"`
	Columns  int             `json:"columns,omitempty"`
	Rows     int             `json:"rows,omitempty"`
	ID       string          `json:"id,omitempty"`
	Resumed  *bool           `json:"resumed,omitempty"`
	Recorded *bool           `json:"recorded,omitempty"`
	Status   *int            `json:"status,omitempty"`
	Reason   terminal.Reason `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
}

// client is one websocket.
type client struct {
	conn     *websocket.Conn
	base     context.Context //nolint:containedctx // of the server: a write has its own deadline
	patience time.Duration
	slow     atomic.Bool
	busy     atomic.Bool // the node does not receive input now, so pongs are not read
}

func newClient(base context.Context, conn *websocket.Conn, patience time.Duration) *client {
	return &client{conn: conn, base: base, patience: patience}
}

// write sends a message. A client that does not receive it in time is disconnected.
func (c *client) write(kind websocket.MessageType, p []byte) bool {
	ctx, cancel := context.WithTimeout(c.base, c.patience)
	defer cancel()
	if c.conn.Write(ctx, kind, p) == nil {
		return true
	}
	c.slow.Store(ctx.Err() != nil)
	_ = c.conn.CloseNow()
	return false
}

func (c *client) send(m message) {
	p, err := json.Marshal(m)
	if err == nil {
		c.write(websocket.MessageText, p)
	}
}

// close ends the websocket. A client that receives nothing does not delay it.
func (c *client) close(code websocket.StatusCode, reason string) {
	stop := time.AfterFunc(closing, func() { _ = c.conn.CloseNow() })
	defer stop.Stop()
	_ = c.conn.Close(code, reason)
	_ = c.conn.CloseNow()
}

// ping finds clients that are gone.
func (c *client) ping(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.busy.Load() {
			continue
		}
		within, cancel := context.WithTimeout(ctx, c.patience)
		err := c.conn.Ping(within)
		cancel()
		if err != nil && ctx.Err() == nil && !c.busy.Load() {
			_ = c.conn.CloseNow()
			return
		}
	}
}
