package stream

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// retry makes a client reconnect two seconds after it lost the connection.
const retry = "retry: 2000\n\n"

// buffers are shared by all writers, so that a client that receives nothing occupies none.
const largestBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// writer sends server-sent events.
type writer struct {
	w        http.ResponseWriter
	ctl      *http.ResponseController
	clock    clock.Clock
	buf      *[]byte // nil when empty
	patience time.Duration
}

func newWriter(w http.ResponseWriter, s *Server) *writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	// The end of the stream is the end of the connection. net/http then writes no chunk, whose header is an allocation for
	// each write; HTTP/2 ignores the field.
	h.Set("Transfer-Encoding", "identity")
	w.WriteHeader(http.StatusOK)
	return &writer{w: w, ctl: http.NewResponseController(w), clock: s.Clock, patience: valueOr(s.Patience, patience)}
}

func (o *writer) begin()        { o.text(retry) }
func (o *writer) event(i *item) { b := o.buffer(); *b = append(*b, i.frame...) }
func (o *writer) heartbeat()    { o.text(": still here\n\n") }

func (o *writer) notification(kind string, data []byte) {
	b := o.buffer()
	*b = append(*b, "event: "...)
	*b = append(*b, kind...)
	*b = append(*b, "\ndata: "...)
	*b = append(*b, data...)
	*b = append(*b, "\n\n"...)
}

// free returns the buffer to the pool, unless large events have made it large.
func (o *writer) free() {
	if cap(*o.buf) <= largestBuffer {
		*o.buf = (*o.buf)[:0]
		buffers.Put(o.buf)
	}
	o.buf = nil
}

func (o *writer) text(s string) { b := o.buffer(); *b = append(*b, s...) }

func (o *writer) buffer() *[]byte {
	if o.buf == nil {
		o.buf = buffers.Get().(*[]byte) //nolint:forcetypeassert // of New
	}
	return o.buf
}

// send writes what was gathered. The server's write timeout is for responses that end; here each write has its own.
func (o *writer) send() error {
	if o.buf == nil {
		return nil
	}
	defer o.free()
	if err := o.ctl.SetWriteDeadline(o.clock.Now().Add(o.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errSlow
	}
	if _, err := o.w.Write(*o.buf); err != nil {
		return errSlow
	}
	if err := o.ctl.Flush(); err != nil {
		return errSlow
	}
	return nil
}
