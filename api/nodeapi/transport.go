package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// transport serves HTTP/1.1 over TLS with an http.Server. It is the listener of that server: it makes
// the TLS handshakes, so that a gate limits them, and it hands a parked connection back to the server
// after its response.
type transport struct {
	handler http.Handler
	tls     *tls.Config
	log     *slog.Logger

	handshakeWithin time.Duration // includes the wait in the gate
	headerWithin    time.Duration // from the first byte of a request to the end of its header
	bodyWithin      time.Duration // from the end of the header to the end of the body
	writeWithin     time.Duration // for a response, unless its handler sets another deadline
	idleFor         time.Duration // between two requests
	drainFor        time.Duration // for open requests after the end of Serve's context

	tcp    net.Listener
	gate   *gate
	ready  chan *conn // for Accept
	ended  chan struct{}
	parked sync.WaitGroup

	mu     sync.Mutex
	own    map[*conn]struct{} // connections that no request of the http.Server uses: idle or parked
	ending bool
}

const (
	// maxPending limits connections without a finished handshake. The kernel's backlog has the others.
	maxPending = 16 << 10
	maxHeader  = 16 << 10
)

// serve serves l until ctx ends, and then lets open requests end.
func (t *transport) serve(ctx context.Context, l net.Listener) error {
	t.tcp, t.gate, t.ready, t.ended, t.own = l, newGate(runtime.GOMAXPROCS(0)), make(chan *conn), make(chan struct{}), map[*conn]struct{}{}
	life := context.WithoutCancel(ctx)
	server := &http.Server{
		Handler: t.bounded(t.handler), ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHeader, Protocols: &http.Protocols{},
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * without the checks of the handler
		ReadHeaderTimeout:            t.headerWithin, WriteTimeout: t.writeWithin, IdleTimeout: t.idleFor,
		BaseContext: func(net.Listener) context.Context { return life },
	}
	server.Protocols.SetHTTP1(true)
	served := make(chan error, 1)
	go func() { served <- server.Serve(t) }()

	err := t.acceptTCP(ctx)
	t.end()
	drain, cancel := context.WithTimeout(life, t.drainFor)
	defer cancel()
	late := server.Shutdown(drain)
	if late == nil { // no handler runs that could still park its connection
		late = t.wait(drain)
	}
	if late != nil {
		_ = server.Close()
		t.closeAll()
	}
	t.log.DebugContext(life, "HTTP server ended", "err", <-served)
	if ctx.Err() == nil {
		return fmt.Errorf("accepting connections: %w", err)
	}
	return late
}

// acceptTCP returns when the TCP listener is closed.
func (t *transport) acceptTCP(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = t.tcp.Close() })()
	pending := make(chan struct{}, maxPending)
	for failures := 0; ; {
		tcp, err := t.tcp.Accept()
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, net.ErrClosed), failures >= 100:
			return err
		default:
			// The process has no free descriptor, most likely. Wait until others are closed.
			failures++
			t.log.WarnContext(ctx, "connection not accepted", "err", err)
			time.Sleep(min(time.Duration(failures)*5*time.Millisecond, time.Second))
			continue
		}
		pending <- struct{}{}
		go t.begin(ctx, tcp, pending)
	}
}

// begin makes the handshake. The http.Server then serves the connection on a new goroutine, because a
// handshake grows its stack to a size that no request needs.
func (t *transport) begin(ctx context.Context, tcp net.Conn, pending <-chan struct{}) {
	g := &gated{Conn: tcp, gate: t.gate}
	c := &conn{Conn: tls.Server(g, t.tls), t: t, tcp: tcp}
	err := tcp.SetDeadline(wall().Add(t.handshakeWithin))
	if err == nil {
		err = c.HandshakeContext(ctx)
	}
	g.finish()
	<-pending
	if err == nil {
		err = tcp.SetDeadline(time.Time{})
	}
	if err != nil {
		t.log.DebugContext(ctx, "no handshake", "peer", tcp.RemoteAddr(), "err", err)
		_ = tcp.Close()
		return
	}
	t.deliver(c)
}

// deliver gives a connection to the http.Server, which waits for a request.
func (t *transport) deliver(c *conn) {
	t.mu.Lock()
	ending := t.ending
	if !ending {
		c.idle.Store(true)
		t.own[c] = struct{}{}
	}
	t.mu.Unlock()
	if ending {
		_ = c.Close()
		return
	}
	select {
	case t.ready <- c:
	case <-t.ended:
		_ = c.Close()
	}
}

// Accept returns connections after their handshake, and those that were parked.
func (t *transport) Accept() (net.Conn, error) {
	select {
	case c := <-t.ready:
		return c, nil
	case <-t.ended:
		return nil, net.ErrClosed
	}
}

// Addr returns the address of the TCP listener.
func (t *transport) Addr() net.Addr { return t.tcp.Addr() }

// Close does nothing: serve has closed the TCP listener before it shuts the http.Server down.
func (*transport) Close() error { return nil }

// end closes the listener and the idle connections. Shutdown of http.Server would wait five seconds for
// a connection that it has accepted and that has sent no request.
func (t *transport) end() {
	_ = t.tcp.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	close(t.ended)
	for c := range t.own {
		if c.idle.Load() {
			_ = c.tcp.Close() // the reader of the http.Server sees the end
		}
	}
}

func (t *transport) isEnding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}

// wait returns when each parked connection has its response.
func (t *transport) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		t.parked.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *transport) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.own {
		_ = c.tcp.Close()
	}
}

// conn is a TLS connection after its handshake.
type conn struct {
	*tls.Conn

	t    *transport
	tcp  net.Conn
	idle atomic.Bool // no byte of the next request has arrived; changes need t.mu
}

// Read gives a request headerWithin from its first byte on.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.idle.Load() && c.leave() {
		_ = c.Conn.SetReadDeadline(wall().Add(c.t.headerWithin)) // the next read reports the failure
	}
	return n, err
}

// SetReadDeadline gives an idle connection idleFor. The http.Server regards a parked connection as a new
// one and would allow the time of a header only. Deadlines in the past interrupt a read of the server.
func (c *conn) SetReadDeadline(at time.Time) error {
	if now := wall(); at.After(now) && c.idle.Load() {
		at = now.Add(c.t.idleFor)
	}
	return c.Conn.SetReadDeadline(at)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// leave ends the idle or parked time. It reports whether the connection was idle.
func (c *conn) leave() (wasIdle bool) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	delete(c.t.own, c)
	return c.idle.Swap(false)
}

// bounded limits the time of the body of a request and of its handler. net/http reads what a handler has
// left unread, without a limit of its own: a body that never arrives would occupy its goroutine for ever.
// A request that changes something goes on when its caller leaves, because the caller repeats it and must
// find its effect. Polls and downloads end with their caller.
func (t *transport) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(wall().Add(t.bodyWithin)) // the next read reports the failure
		}
		if r.Method != http.MethodGet {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), t.bodyWithin+t.writeWithin)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
