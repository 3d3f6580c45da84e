package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// States of a connection; only one that is idle may be closed under it.
const (
	idle int32 = iota
	busy
	closed
)

// conn is one peer. All that it needs for a request is borrowed for the request.
type conn struct {
	s     *Server
	tcp   net.Conn
	tls   *tls.Conn
	state atomic.Int32
	first [1]byte // what ended the wait for the next request
	rest  []byte  // read beyond the last request: the peer did not wait for its answer
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxLine) }}

func (c *conn) begin(pending <-chan struct{}) {
	err := c.handshake()
	<-pending
	if err != nil {
		c.s.Log.DebugContext(c.s.life, "no handshake", "peer", c.tcp.RemoteAddr(), "err", err)
		c.close()
		return
	}
	// The handshake has grown this stack to a size that waiting does not need.
	go c.serve()
}

func (c *conn) handshake() error {
	g := &gated{Conn: c.tcp, gate: c.s.gate}
	defer g.finish()
	c.tls = tls.Server(g, c.s.TLS)
	if err := c.tcp.SetDeadline(wall().Add(c.s.HandshakeWithin)); err != nil {
		return err
	}
	return c.tls.HandshakeContext(c.s.life)
}

func (c *conn) close() {
	c.state.Store(closed)
	if c.tls != nil {
		_ = c.tls.Close() // all is said, or nobody listens
	} else {
		_ = c.tcp.Close()
	}
	c.s.leave(c)
}

// serve answers one request after another. It returns while a request waits for
// its answer, and another goroutine goes on from there.
func (c *conn) serve() {
	for c.await() {
		switch c.request() {
		case later:
			return
		case last:
			c.hangUp()
			return
		case next:
		}
	}
	c.close()
}

// await returns when the next request begins; false when it does not. It reads
// one byte, into the connection itself, since a buffer might be for minutes.
func (c *conn) await() bool {
	if len(c.rest) > 0 {
		return true
	}
	c.state.Store(idle)
	if c.s.isEnding() { // it was not idle when the others were closed
		return false
	}
	if c.tls.SetReadDeadline(wall().Add(c.s.IdleFor)) != nil {
		return false
	}
	n, err := c.tls.Read(c.first[:])
	if !c.state.CompareAndSwap(idle, busy) || n == 0 && err != nil {
		return false
	}
	c.rest = append(c.rest, c.first[:n]...)
	return true
}

// what becomes of the connection after a request.
type fate int

const (
	next  fate = iota
	last       // it ends here
	later      // parked
)

// request reads one request and has it answered.
func (c *conn) request() fate {
	c.state.Store(busy)
	r := readers.Get().(*bufio.Reader) //nolint:forcetypeassert // the pool makes only these
	r.Reset(io.MultiReader(bytes.NewReader(c.rest), c.tls))
	defer func() {
		r.Reset(nil)
		readers.Put(r)
	}()
	c.rest = nil
	if c.tls.SetReadDeadline(wall().Add(c.s.HeadWithin)) != nil {
		return last
	}
	head, err := readHead(r)
	w := &reply{c: c, header: http.Header{}}
	if err != nil {
		return c.refuse(w, err)
	}
	return c.answer(c.s.life, w, head, r)
}

// answer has one request answered. Its context ends with it.
func (c *conn) answer(ctx context.Context, w *reply, head *http.Request, r *bufio.Reader) fate {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	state := c.tls.ConnectionState()
	head.TLS, head.RemoteAddr = &state, c.tcp.RemoteAddr().String()
	b := &body{from: r, left: head.ContentLength}
	if head.ContentLength > 0 {
		head.Body = b
		if head.Header.Get("Expect") != "" {
			b.ask = c.tls
		}
	}
	w.request, w.body, w.closing = head, b, head.Close || c.s.isEnding()

	if !c.handle(w, head.WithContext(ctx)) {
		return last
	}
	return c.after(w, b, r)
}

// handle runs the handler; false when it failed in a way that ends the connection.
func (c *conn) handle(w *reply, r *http.Request) bool {
	return c.guard(func() { c.s.Handler.ServeHTTP(w, r) })
}

// guard keeps a fault in one answer from ending the process.
func (c *conn) guard(answer func()) (ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if err, is := cause.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
				c.s.Log.ErrorContext(c.s.life, "handler panicked", "cause", cause, "stack", string(debug.Stack()))
			}
			ok = false
		}
	}()
	answer()
	return true
}

// after reads what the handler left of the body, and sends the answer, or leaves
// that to whoever resumes.
func (c *conn) after(w *reply, b *body, r *bufio.Reader) fate {
	if w.parked == nil {
		if !b.skip(c.tls) {
			w.closing = true
		}
		if !w.finish() {
			return last
		}
		c.keep(r)
		return next
	}
	if !b.skip(c.tls) || c.tls.SetReadDeadline(time.Time{}) != nil {
		w.closing = true
	}
	w.parked.closing = w.closing
	c.keep(r)
	return w.parked.left()
}

// keep copies what the peer sent ahead.
func (c *conn) keep(r *bufio.Reader) {
	if n := r.Buffered(); n > 0 {
		ahead, _ := r.Peek(n) // that much is there
		c.rest = bytes.Clone(ahead)
	}
}

// refuse answers a head that is none. What follows it cannot be told from it.
func (c *conn) refuse(w *reply, err error) fate {
	if bad, ok := errors.AsType[*headError](err); ok {
		w.closing = true
		http.Error(w, bad.why, bad.status)
		w.finish()
	}
	return last
}

const (
	lingerFor   = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// hangUp ends the connection so that the last answer arrives: closing a socket
// with unread bytes would reset it, and the peer could lose what it has not read.
func (c *conn) hangUp() {
	defer c.close()
	if c.tls.CloseWrite() != nil || c.tcp.SetReadDeadline(wall().Add(lingerFor)) != nil {
		return
	}
	if half, ok := c.tcp.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.tcp, lingerBytes) // until the peer closes, or is too slow
	}
}
