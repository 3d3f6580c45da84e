package terminal

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/gpuaas/gpuaas/product/terminal"
)

// lastBytes is the time for a client to end after the node has ended.
const lastBytes = time.Second

// relay copies the bytes of the client's own SSH client. The server cannot read them.
func (x *session) relay() {
	conn, err := x.dial()
	if err != nil {
		x.failed(err)
		return
	}
	defer conn.Close() //nolint:errcheck // its end is the end of the session
	x.begin(conn)
	go x.halfClose(conn)
	p := make([]byte, 32<<10)
	for {
		n, err := conn.Read(p)
		if n > 0 {
			x.output(p[:n], false)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) { // announced by the agent; otherwise the stream is lost
			x.eof()
		}
		return
	}
}

// eof sends to the client that the node has ended its output.
func (x *session) eof() {
	if c := x.current.Load(); c != nil {
		c.send(message{Type: "eof"})
	}
	select {
	case <-x.halfEnd:
	case <-x.ctx.Done():
	case <-time.After(lastBytes):
	}
	x.lost(terminal.Exited)
}

// halfClose ends the input of the node when the client has ended its own.
func (x *session) halfClose(conn net.Conn) {
	select {
	case <-x.ctx.Done():
		return
	case <-x.halfEnd:
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
