package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/gpuaas/gpuaas/api/terminal/replay"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

// session is a terminal or an SSH connection that this server owns.
type session struct {
	server *Server
	row    terminal.Opened
	trace  string
	begun  time.Time
	ctx    context.Context //nolint:containedctx // of the session, which outlives each request
	cancel context.CancelFunc

	ended   sync.Once
	reason  terminal.Reason
	exit    *int
	message string

	received, sent     atomic.Int64
	active, detachedAt atomic.Int64 // Unix milliseconds; detachedAt is 0 while a client is connected

	forwards bool // the node permits forwarding, as the policy was at the begin

	ready    chan struct{} // closed when input is set
	input    io.Writer
	sizes    chan size
	halfEnd  chan struct{} // closed when the client sends no more
	halfOnce sync.Once

	current atomic.Pointer[client]
	out     sync.Mutex // output and replays are sent in sequence
	to      *client    // receives output
	buffer  replay.Buffer

	recorder atomic.Pointer[recording.Recorder] // nil: the session is not recorded
}

type size struct{ columns, rows int }

func newSession(s *Server, o terminal.Opened, trace string) *session {
	x := &session{server: s, row: o, trace: trace, ready: make(chan struct{}), sizes: make(chan size, 1), halfEnd: make(chan struct{})}
	x.ctx, x.cancel = context.WithCancel(s.base)
	x.forwards = x.limits().Forwarding
	x.touch()
	return x
}

func (x *session) touch() { x.active.Store(x.server.Clock.Now().UnixMilli()) }

// end ends the session; only the first reason counts.
func (x *session) end(r terminal.Reason) { x.endWith(r, nil, "") }

func (x *session) endWith(r terminal.Reason, exit *int, text string) {
	x.ended.Do(func() {
		x.reason, x.exit, x.message = r, exit, text
		x.cancel()
	})
}

// lost ends a session whose stream to the node has ended. The node may be faster than the watcher: if the rights to the session
// have ended, too, that is the reason.
func (x *session) lost(otherwise terminal.Reason) {
	if x.ctx.Err() == nil {
		x.end(cmp.Or(x.cause(), otherwise))
	}
}

// cause returns why the session may not go on, or "" if it may.
func (x *session) cause() terminal.Reason {
	ctx, cancel := context.WithTimeout(x.server.base, watchEvery)
	defer cancel()
	ends, err := x.server.Sessions.Ends(ctx, x.server.instance, x.row.ID)
	if err != nil {
		return ""
	}
	return ends[x.row.ID]
}

// run serves the first client, and the session until it ends.
func (x *session) run(ctx context.Context, c *client) {
	x.current.Store(c)
	x.to = c
	go func() { //nolint:contextcheck // a terminal outlives the request
		if x.row.Purpose == terminal.SSH {
			x.relay()
		} else {
			x.shell()
		}
		x.lost(terminal.StreamLost)
		x.finish()
	}()
	x.read(ctx, c)
}

// finish sends the reason of the end to the client, and records it.
func (x *session) finish() {
	if c := x.current.Swap(nil); c != nil {
		stop := time.AfterFunc(closing, func() { _ = c.conn.CloseNow() }) // a client that receives nothing does not delay the end
		c.send(message{Type: "exit", Status: x.exit, Reason: x.reason, Message: x.message})
		c.close(closeCode(x.reason), string(x.reason))
		stop.Stop()
	}
	x.closeRecording()
	x.server.remove(x, terminal.Ended{Reason: x.reason, ExitStatus: x.exit, Received: x.received.Load(), Sent: x.sent.Load()})
}

// serveClient connects a client to an open terminal. The client before it is disconnected.
func (x *session) serveClient(ctx context.Context, c *client, resumed bool) {
	if old := x.current.Swap(c); old != nil {
		go old.close(closeTakenBy, "another window replaces this one")
	}
	x.detachedAt.Store(0)
	x.out.Lock()
	if x.current.Load() == c { // no third client is connected meanwhile
		x.announce(c, resumed)                              //nolint:contextcheck // a write has its own deadline
		c.write(websocket.MessageBinary, x.buffer.Replay()) //nolint:contextcheck // a write has its own deadline
		x.to = c
	}
	x.out.Unlock()
	if x.ctx.Err() != nil { // it has ended meanwhile
		c.close(closeGone, string(x.reason))
	}
	x.read(ctx, c)
}

func (x *session) announce(c *client, resumed bool) {
	recorded := x.isRecorded()
	c.send(message{Type: "session", ID: x.row.ID.String(), Resumed: &resumed, Recorded: &recorded})
}

// output sends output of the node to the client, if one is connected.
func (x *session) output(p []byte, keep bool) {
	x.touch()
	x.out.Lock()
	defer x.out.Unlock()
	if keep {
		x.buffer.Write(p)
	}
	if x.to == nil || x.ctx.Err() != nil {
		return
	}
	if x.to.write(websocket.MessageBinary, p) {
		x.sent.Add(int64(len(p)))
	} else {
		x.to = nil
	}
}

// read receives messages until the client is gone.
func (x *session) read(ctx context.Context, c *client) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go c.ping(ctx, valueOr(x.server.Times.Ping, pingEvery))
	err := x.receive(ctx, c)
	if broken, ok := errors.AsType[protocolError](err); ok {
		c.close(websocket.StatusPolicyViolation, string(broken))
	}
	_ = c.conn.CloseNow()
	if !x.current.CompareAndSwap(c, nil) {
		return // another client has the session, or the session has ended
	}
	x.detachedAt.Store(x.server.Clock.Now().UnixMilli())
	x.out.Lock()
	if x.to == c {
		x.to = nil
	}
	x.out.Unlock()
	switch normal := websocket.CloseStatus(err) == websocket.StatusNormalClosure; {
	case x.row.Purpose == terminal.SSH && c.slow.Load():
		x.end(terminal.Slow)
	case x.row.Purpose == terminal.SSH, normal: // a page that loads again sends another code
		x.end(terminal.Closed)
	}
}

// protocolError is a message that breaks the protocol.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// Messages of text: resizes and pings.
const controlsPerSecond, controlBurst = 100, 500

func (x *session) receive(ctx context.Context, c *client) error {
	controls := rate.NewLimiter(controlsPerSecond, controlBurst)
	for {
		kind, p, err := c.conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			if !controls.Allow() {
				return protocolError("too many messages")
			}
			if err := x.control(c, p); err != nil { //nolint:contextcheck // a write has its own deadline
				return err
			}
			continue
		}
		c.busy.Store(true)
		if err := x.send(p); err != nil {
			return err
		}
		c.busy.Store(false)
	}
}

// send sends input to the node. A node that receives nothing stops the client, too.
func (x *session) send(p []byte) error {
	select {
	case <-x.ready:
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
	x.touch()
	x.received.Add(int64(len(p)))
	_, err := x.input.Write(p)
	return err
}

// maxSide limits the columns and rows of a terminal.
const maxSide = 1000

func (x *session) control(c *client, p []byte) error {
	var m message
	if len(p) > maxControl || !utf8.Valid(p) || json.Unmarshal(p, &m) != nil {
		return protocolError("the message is not JSON of at most 1024 bytes")
	}
	switch {
	case m.Type == "ping":
		c.send(message{Type: "pong"})
	case m.Type == "eof" && x.row.Purpose == terminal.SSH:
		x.halfOnce.Do(func() { close(x.halfEnd) })
	case m.Type == "resize" && x.row.Purpose == terminal.Shell:
		if min(m.Columns, m.Rows) < 1 || max(m.Columns, m.Rows) > maxSide {
			return protocolError("columns and rows are 1 to 1000")
		}
		select { // only the last size counts
		case <-x.sizes:
		default:
		}
		select {
		case x.sizes <- size{m.Columns, m.Rows}:
		default:
		}
	default:
		return protocolError("the message has no known type")
	}
	return nil
}
