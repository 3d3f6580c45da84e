package http1

import (
	"errors"
	"io"
	"time"
)

// maxSkipped is how much of an unread body is read to keep a connection; past that
// a new connection is cheaper.
const maxSkipped = 256 << 10

// skipWithin is how long that may take.
const skipWithin = 5 * time.Second

// body is as many bytes as the head has announced.
type body struct {
	from io.Reader
	left int64
	ask  io.Writer // the peer waits to be asked for it
	torn bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	if b.ask != nil {
		if _, err := io.WriteString(b.ask, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			b.torn = true
			return 0, err
		}
		b.ask = nil
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && b.left > 0 {
		b.torn = true
	}
	return n, err
}

func (*body) Close() error { return nil }

// skip reads what is left; false when the connection cannot be used after it.
func (b *body) skip(c interface{ SetReadDeadline(t time.Time) error }) bool {
	switch {
	case b.torn || b.left > maxSkipped:
		return false
	case b.left == 0:
		return true
	case b.ask != nil || c.SetReadDeadline(wall().Add(skipWithin)) != nil:
		return false // it may come or not
	}
	_, err := io.Copy(io.Discard, b)
	return err == nil && b.left == 0
}
