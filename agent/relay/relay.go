// Package relay opens streams to sshd and to the logs of this node for a terminal server. The agent opens one TLS connection per stream and
// copies bytes. The request of the control plane, which the helper verifies, names the server and its key.
package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Relay opens the streams of one node. Its fields are set before the first call.
type Relay struct {
	// Stream verifies a request and returns where the stream leads.
	Stream func(ctx context.Context, s protocol.Signed) (helper.Stream, error)
	// ReadLog returns the next lines of a stream of kind logs. With end it ends the stream.
	ReadLog  func(ctx context.Context, stream ids.Task, end bool) (helper.LogBatch, error)
	Identity func() *enrol.Identity
	Clock    clock.Clock
	Log      *slog.Logger

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	streams  int
	cut      bool
	sessions tls.ClientSessionCache
	resumes  *enrol.Identity // the identity of the sessions
}

const (
	// MaxStreams limits the streams of a node.
	MaxStreams = 128
	// maxRejections limits the rejections that are sent to terminal servers at the same time.
	maxRejections = 16
	// openWithin limits the way from a request to a stream. The terminal server waits for RelayWithin.
	openWithin = 10 * time.Second
	// loginWithin limits the connection to sshd on loopback.
	loginWithin = 3 * time.Second
)

// Open opens the stream of a request and serves it until it ends. It returns an error for a request that is not valid.
func (r *Relay) Open(ctx context.Context, signed protocol.Signed) error {
	s, err := r.Stream(ctx, signed)
	if err != nil {
		return err
	}
	switch n := r.begin(); {
	case n > MaxStreams+maxRejections:
		r.end()
		return fmt.Errorf("stream %s: this node has too many streams", s.ID)
	case n > MaxStreams && s.Reason == "":
		s.Reason = fmt.Sprintf("this node has %d streams already", MaxStreams)
	}
	defer r.end()
	if err := r.serve(ctx, s); err != nil && ctx.Err() == nil {
		r.Log.WarnContext(ctx, "stream not opened", "stream", s.ID, "address", s.Address, "err", err)
	}
	return nil
}

func (r *Relay) begin() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return r.streams
}

func (r *Relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams--
}

// Streams returns the number of streams.
func (r *Relay) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}

// serve connects both sides and copies until one ends.
func (r *Relay) serve(ctx context.Context, s helper.Stream) error {
	opening, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if s.Kind == protocol.StreamLogs {
		return r.serveLog(ctx, opening, s)
	}
	var login net.Conn
	if s.Reason == "" {
		var err error
		if login, err = r.dial(opening, loginWithin, s.Login); err != nil {
			s.Reason = "sshd of this node does not accept connections"
			r.Log.WarnContext(ctx, "sshd not reached", "address", s.Login, "err", err)
		} else {
			defer r.close(login)
		}
	}
	server, err := r.connect(opening, s)
	if err != nil || s.Reason != "" {
		return errors.Join(err, rejected(s))
	}
	defer r.close(server.raw)
	defer context.AfterFunc(ctx, func() { r.close(server.raw); r.close(login) })()
	splice(server, login)
	return nil
}

func rejected(s helper.Stream) error {
	if s.Reason == "" {
		return nil
	}
	return errors.New(s.Reason)
}

// keepAlive ends a stream whose peer is unreachable within a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}

var errCut = errors.New("the node is partitioned")

// dial connects, and registers the connection for Cut.
func (r *Relay) dial(ctx context.Context, within time.Duration, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: within, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return nil, errors.Join(errCut, conn.Close())
	}
	if r.conns == nil {
		r.conns = map[net.Conn]struct{}{}
	}
	r.conns[conn] = struct{}{}
	return conn, nil
}

func (r *Relay) close(conn net.Conn) {
	r.mu.Lock()
	delete(r.conns, conn)
	r.mu.Unlock()
	_ = conn.Close()
}

// Cut closes all streams and prevents new ones while off is true.
func (r *Relay) Cut(off bool) {
	r.mu.Lock()
	r.cut = off
	var open []net.Conn
	for conn := range r.conns {
		if off {
			open = append(open, conn)
		}
	}
	r.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}
