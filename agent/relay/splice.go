package relay

import (
	"io"
	"net"
	"sync"
)

// bufferSize is the memory of one direction. The kernel buffers the rest and does the flow control.
const bufferSize = 64 << 10

type half interface{ CloseWrite() error }

// splice copies both ways. The end of one direction is passed on, and the other continues. It returns when both have ended.
func splice(server *upgraded, login net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(login, server, server.raw) })
	both.Go(func() { pass(server, login, server.raw) })
	both.Wait()
}

// pass copies from one side to the other. An error ends both directions.
func pass(to net.Conn, from net.Conn, raw net.Conn) {
	// Without ReadFrom: the kernel cannot splice TLS, and io.Copy would ignore the buffer.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, bufferSize))
	if err == nil {
		if closer, ok := to.(half); ok && closer.CloseWrite() == nil {
			return
		}
	}
	_ = raw.Close() // first: to close TLS writes to a peer that may not read
	_ = to.Close()
	_ = from.Close()
}
