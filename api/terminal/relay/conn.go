package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Conn is the stream of an agent.
type Conn struct {
	*tls.Conn

	server *Server
	caller caller
	kind   protocol.StreamKind
	socket *socket
	reader *bufio.Reader // has the bytes that came with the request; nil after they were read
}

// Read reads the bytes of the stream. The error is io.EOF only if the agent has announced the end.
func (c *Conn) Read(p []byte) (int, error) {
	if c.reader != nil && c.reader.Buffered() > 0 {
		return c.reader.Read(p)
	}
	c.reader = nil // its memory would stay as long as the stream
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) && c.socket.ended.Load() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close closes the stream.
func (c *Conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.open, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// abort closes the stream without a last TLS record, for which a peer that does not read could wait.
func (c *Conn) abort() { _ = c.NetConn().Close() }

var errNotServed = errors.New("a stream was not served by Serve")

// hijack removes the connection of a request from its http.Server and switches the protocol.
func (s *Server) hijack(w http.ResponseWriter, who caller, kind protocol.StreamKind) (*Conn, error) {
	hijacked, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	secured, ok := hijacked.(*tls.Conn)
	if !ok {
		return nil, errors.Join(errNotServed, hijacked.Close())
	}
	below, ok := secured.NetConn().(*socket)
	if !ok {
		return nil, errors.Join(errNotServed, hijacked.Close())
	}
	c := &Conn{Conn: secured, server: s, caller: who, kind: kind, socket: below, reader: buffered.Reader}
	err = secured.SetDeadline(clock.Clock{}.Now().Add(headerWithin)) // of the system, as deadlines are
	if err == nil {
		_, err = fmt.Fprintf(secured, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol.RelayUpgrade)
	}
	if err == nil {
		err = secured.SetDeadline(time.Time{})
	}
	if tcp, ok := below.Conn.(*net.TCPConn); ok && err == nil {
		err = tcp.SetKeepAliveConfig(keepAlive)
	}
	s.mu.Lock()
	over := s.over
	if err == nil && !over {
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil || over {
		c.abort()
		return nil, errors.Join(errors.New("the stream was not opened"), err)
	}
	return c, nil
}

// keepAlive ends a stream whose node is unreachable within a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}

const (
	// watchEvery is half of the two seconds in which the streams of a revoked node must end.
	watchEvery = time.Second
	// blindFor is the time without an answer of the database after which no stream stays open.
	blindFor = 5 * time.Second
)

// watch closes the streams of nodes whose certificate was revoked, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	checked := s.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		open, serials := s.streams()
		within, cancel := context.WithTimeout(ctx, watchEvery)
		revoked, err := s.revoked(within, serials)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			checked = s.Clock.Now()
		case s.Clock.Now().Sub(checked) >= blindFor:
			s.Log.ErrorContext(ctx, "streams are closed: the certificates of their nodes cannot be checked", "streams", len(open), "err", err)
			revoked = serials
		default:
			s.Log.WarnContext(ctx, "certificates of streams not checked", "err", err)
		}
		for _, serial := range revoked {
			for _, c := range open[serial] {
				s.Log.InfoContext(ctx, "stream closed", "node", c.caller.node, "serial", serial)
				c.abort()
			}
		}
	}
}

func (s *Server) revoked(ctx context.Context, serials []string) ([]string, error) {
	if len(serials) == 0 {
		return nil, nil
	}
	return s.Certificates.RevokedOf(ctx, serials)
}

// streams returns the open streams by the serials of their certificates.
func (s *Server) streams() (open map[string][]*Conn, serials []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open = map[string][]*Conn{}
	for c := range s.open {
		if open[c.caller.serial] == nil {
			serials = append(serials, c.caller.serial)
		}
		open[c.caller.serial] = append(open[c.caller.serial], c)
	}
	return open, serials
}
