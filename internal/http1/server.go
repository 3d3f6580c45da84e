// Package http1 serves HTTP/1.1 over TLS to many peers that mostly wait. A peer
// whose answer waits costs its TLS state and nothing else: no goroutine, no
// buffer, no request; net/http keeps two goroutines and 17 kB more of it.
//
// It serves any http.Handler, and refuses what no agent sends: HTTP/1.0 and 2,
// bodies without a length, heads that two readers could read in two ways.
package http1

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
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// Server answers the connections of one listener. Its fields are set before Serve.
type Server struct {
	Handler http.Handler
	TLS     *tls.Config
	Log     *slog.Logger

	HandshakeWithin time.Duration // from the accept on, with all waiting in the gate
	HeadWithin      time.Duration // from a request's first byte to the end of its head
	WriteWithin     time.Duration // for each piece of an answer
	IdleFor         time.Duration // between two requests
	DrainFor        time.Duration // what is being answered when Serve's context ends

	life   context.Context //nolint:containedctx // what handlers' contexts descend from
	gate   *gate
	mu     sync.Mutex
	conns  map[*conn]struct{}
	ending bool
	empty  chan struct{} // closed when the last connection of an ending server is gone
}

// maxPending bounds connections that have not shown who they are. The kernel's
// backlog holds the others.
const maxPending = 16 << 10

// Serve answers until ctx ends, then lets what is being answered end. Handlers'
// contexts outlive ctx by that long.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.life, s.gate = context.WithoutCancel(ctx), newGate(runtime.GOMAXPROCS(0))
	s.conns, s.empty = map[*conn]struct{}{}, make(chan struct{})
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()

	err := s.accept(ctx, l)
	if ctx.Err() == nil {
		s.end()
		s.closeAll()
		return fmt.Errorf("accepting connections: %w", err)
	}
	s.end()
	late := time.NewTimer(s.DrainFor)
	defer late.Stop()
	select {
	case <-s.empty:
		return nil
	case <-late.C:
		s.closeAll()
		return context.DeadlineExceeded
	}
}

// accept returns when the listener does not listen any more.
func (s *Server) accept(ctx context.Context, l net.Listener) error {
	pending := make(chan struct{}, maxPending)
	for failures := 0; ; {
		tcp, err := l.Accept()
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, net.ErrClosed):
			return err
		case failures >= 100:
			return err
		default:
			// Out of descriptors, most likely: a second gives some back.
			failures++
			s.Log.WarnContext(ctx, "connection not accepted", "err", err)
			time.Sleep(min(time.Duration(failures)*5*time.Millisecond, time.Second))
			continue
		}
		pending <- struct{}{}
		c := &conn{s: s, tcp: tcp}
		if !s.enter(c) {
			_ = tcp.Close()
			<-pending
			continue
		}
		go c.begin(pending)
	}
}

func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.checkEmpty()
}

// checkEmpty needs s.mu.
func (s *Server) checkEmpty() {
	if s.ending && len(s.conns) == 0 {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}

// end closes what nobody waits for: connections between two requests, and those
// that are still introducing themselves.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.conns {
		if c.state.CompareAndSwap(idle, closed) {
			_ = c.tcp.Close() // its goroutine sees it and leaves
		}
	}
	s.checkEmpty()
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.tcp.Close()
	}
}

// wall is what deadlines of sockets are compared with.
func wall() time.Time { return clock.Clock{}.Now() }
