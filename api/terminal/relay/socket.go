package relay

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// socket is a TCP connection below TLS. crypto/tls returns io.EOF after a close_notify, and also when TCP ends without one: when
// the agent was killed. It does not read TCP after a close_notify, so that an end of TCP is the loss of the connection.
type socket struct {
	net.Conn

	ended atomic.Bool
}

// Read reads bytes of TLS.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		s.ended.Store(true)
	}
	return n, err
}

// sockets is a listener whose connections are sockets.
type sockets struct{ net.Listener }

// Accept waits for the next connection.
func (l sockets) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &socket{Conn: conn}, nil
}
