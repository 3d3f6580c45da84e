package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// bufferSize is the memory of one direction. The kernel buffers the rest and does the flow control.
const bufferSize = 64 << 10

// splice copies both ways. The end of one direction is passed on, and the other continues. It returns when both have ended.
func splice(server *upgraded, login net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { input(server, login) })
	both.Go(func() { output(server, login) })
	both.Wait()
}

// input passes the bytes of the server to sshd.
func input(server *upgraded, login net.Conn) {
	fromServer, toLogin := pass(login, server)
	switch {
	case toLogin != nil:
		// sshd has ended, and output still announces it. A close with unread bytes would reset the connection to the server, and
		// the server would lose the last output and the announcement.
		_, _ = io.Copy(io.Discard, server)
	case errors.Is(fromServer, io.EOF):
		if half, ok := login.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	default: // the server is lost
		_ = login.Close()
	}
}

// output passes the bytes of sshd to the server, and announces the end of sshd with close_notify. A connection that ends without
// it is lost: the server does not report that the program has ended.
func output(server *upgraded, login net.Conn) {
	fromLogin, toServer := pass(server, login)
	// net.ErrClosed: this process has closed the connection, and sshd may still run.
	if toServer == nil && !errors.Is(fromLogin, net.ErrClosed) && server.CloseWrite() == nil {
		return
	}
	_ = server.raw.Close() // not TLS: it would write to a peer that may not read
	_ = login.Close()
}

// pass copies until it cannot read or write. Without io.Copy: the kernel cannot splice TLS, and the callers need to know which
// of the two connections has failed.
func pass(to io.Writer, from io.Reader) (reading, writing error) {
	p := make([]byte, bufferSize)
	for {
		n, err := from.Read(p)
		if n > 0 {
			if _, err := to.Write(p[:n]); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return err, nil
		}
	}
}
