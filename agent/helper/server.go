package helper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Server answers the network process over a Unix socket. The kernel reports the uid of the caller.
// Nothing that the caller sends is trusted because of it.
type Server struct {
	UID   int // of the network process; other callers are disconnected
	Local *Local
	Log   *slog.Logger

	seat atomic.Pointer[activeConn] // who is connected; one at a time
	work sync.WaitGroup
}

// acceptPause prevents a busy loop while the process has no free file descriptors.
const acceptPause = 100 * time.Millisecond

// Serve answers on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer s.work.Wait()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the helper's socket was closed: %w", err)
		case err != nil:
			s.Log.WarnContext(ctx, "connection not accepted", "err", err)
			if !sleep(ctx, acceptPause) {
				return nil
			}
			continue
		}
		s.admit(ctx, conn)
	}
}

// admit accepts a caller or closes the connection. It reads nothing before the kernel has reported
// the uid of the caller, and starts no goroutine for any other caller.
func (s *Server) admit(ctx context.Context, conn *net.UnixConn) {
	uid, err := peerOf(conn)
	if err != nil || uid != s.UID {
		s.Log.WarnContext(ctx, "unknown caller rejected", "uid", uid, "err", err)
		_ = conn.Close()
		return
	}
	seated := &activeConn{conn: conn, out: make(chan message, maxWaiting), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	if !s.seat.CompareAndSwap(nil, seated) {
		// The kernel ends the connection of a process that has ended, so the process with the seat is
		// alive.
		_ = conn.Close()
		return
	}
	s.work.Go(func() {
		defer s.seat.CompareAndSwap(seated, nil)
		s.attend(ctx, seated)
	})
}

// activeConn is the one connection that is answered.
type activeConn struct {
	conn    *net.UnixConn
	out     chan message
	wake    chan struct{}
	gone    chan struct{}
	closing sync.Once

	changed, finished, keys atomic.Bool
}

const (
	// maxWaiting bounds what waits to be sent.
	maxWaiting = 64
	// maxCalls limits the calls that run at the same time.
	maxCalls = 8
)

func (c *activeConn) leave() {
	c.closing.Do(func() {
		close(c.gone)
		_ = c.conn.Close()
	})
}

// attend serves the caller until it disconnects, violates the protocol, or ctx ends.
func (s *Server) attend(ctx context.Context, c *activeConn) {
	var calls sync.WaitGroup
	defer calls.Wait() // after cancel: a call without a caller must not block the seat
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, c.leave)
	defer stop()
	defer c.leave()
	if err := s.greet(c); err != nil {
		s.Log.WarnContext(ctx, "caller rejected", "err", err)
		return
	}
	calls.Go(func() { c.write() })
	free := make(chan struct{}, maxCalls)
	for {
		r, err := read(c.conn, 0)
		if err != nil {
			s.Log.InfoContext(ctx, "caller disconnected", "err", err)
			return
		}
		select {
		case free <- struct{}{}:
		case <-c.gone:
			return
		}
		calls.Go(func() {
			defer func() { <-free }()
			c.send(s.answer(ctx, r))
		})
	}
}

func read(conn net.Conn, first time.Duration) (r request, err error) {
	text, err := readFrame(conn, maxRequest, first)
	if err != nil {
		return r, err
	}
	if err := protocol.Strict(bytes.NewReader(text), &r); err != nil {
		return r, fmt.Errorf("not a call: %w", err)
	}
	return r, nil
}

// greet reads the first call, which has the version of the protocol.
func (s *Server) greet(c *activeConn) error {
	r, err := read(c.conn, frameWithin)
	if err != nil {
		return err
	}
	if r.Call != callHello || r.Protocol != Protocol {
		return fmt.Errorf("%q of protocol %d, want hello of %d", r.Call, r.Protocol, Protocol)
	}
	s.Local.skip()
	return writeFrame(c.conn, message{ID: r.ID, Hello: s.Local.Hello()}, maxReply)
}

// answer executes one call.
func (s *Server) answer(ctx context.Context, r request) message {
	m := message{ID: r.ID}
	var err error
	switch r.Call {
	case callReceive:
		if r.Signed == nil {
			err = errors.New("no task")
			break
		}
		a, _ := s.Local.Receive(ctx, *r.Signed) // in this process it is always reached
		m.Answer = packed(a)
	case callInspect:
		var report protocol.Report
		report, err = s.Local.Inspect(ctx)
		m.Report = &report
	case callPendingResults:
		m.Results, err = s.Local.PendingResults(ctx)
	case callAckResult:
		err = s.Local.AckResult(ctx, r.Allocation, r.Task)
	case callUpdateTrust:
		err = s.Local.UpdateTrust(ctx, r.Sets)
	case callUpdateReleases:
		err = s.Local.UpdateReleaseKeys(ctx, r.Sets)
	case callHeard:
		err = s.Local.HandleAck(ctx, r.Ack)
	case callStream:
		if r.Signed == nil {
			err = errors.New("no request for a stream")
			break
		}
		var stream Stream
		stream, err = s.Local.Stream(ctx, *r.Signed)
		m.Stream = &stream
	case callReadLog:
		var batch LogBatch
		batch, err = s.Local.ReadLog(ctx, r.Task, r.End)
		m.Log = &batch
	case callKeyWants:
		m.Wants, err = s.Local.KeyWants(ctx)
	case callGrantKeys:
		if err = errNoGrant; r.Grant != nil {
			err = s.Local.GrantKeys(ctx, *r.Grant)
		}
	case callPlan:
		m.Plans, err = s.Local.Plan(ctx)
	default:
		err = fmt.Errorf("no call %q", r.Call)
	}
	if err != nil {
		m.Failure, m.Code = err.Error(), protocol.CodeOf(err)
		if refused, ok := errors.AsType[*protocol.RejectedError](err); ok {
			m.Failure = refused.Message
		}
	}
	return m
}

// send waits for its turn, or for the caller to leave.
func (c *activeConn) send(m message) {
	select {
	case c.out <- m:
	case <-c.gone:
	}
}

// write sends what waits. A caller that does not read is hung up on.
func (c *activeConn) write() {
	defer c.leave()
	for {
		var m message
		select {
		case <-c.gone:
			return
		case m = <-c.out:
		case <-c.wake:
			for flag, event := range map[*atomic.Bool]string{&c.changed: eventChanged, &c.finished: eventFinished, &c.keys: eventKeys} {
				if flag.Swap(false) && writeFrame(c.conn, message{Event: event}, maxReply) != nil {
					return
				}
			}
			continue
		}
		if writeFrame(c.conn, m, maxReply) != nil {
			return
		}
	}
}

// Notes send events to the connected process. A lost event costs little: results wait in the journal,
// every report reads the host OS again, and the control plane repeats a probe.
func (s *Server) Notes() Notes {
	flag := func(which func(*activeConn) *atomic.Bool) {
		if c := s.seat.Load(); c != nil {
			which(c).Store(true)
			select {
			case c.wake <- struct{}{}:
			default:
			}
		}
	}
	return Notes{
		Changed:  func() { flag(func(c *activeConn) *atomic.Bool { return &c.changed }) },
		Finished: func() { flag(func(c *activeConn) *atomic.Bool { return &c.finished }) },
		Keys:     func() { flag(func(c *activeConn) *atomic.Bool { return &c.keys }) },
		Progress: func(task ids.Task, p protocol.Progress) {
			s.notify(message{Event: eventProgress, Task: task, Progress: &p})
		},
		Probe: func(_ context.Context, r *protocol.Result) { s.notify(message{Event: eventProbe, Result: r}) },
	}
}

// notify drops what does not fit: only people wait for it.
func (s *Server) notify(m message) {
	if c := s.seat.Load(); c != nil {
		select {
		case c.out <- m:
		default:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
