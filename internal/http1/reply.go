package http1

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxGathered is how much of an answer waits for its end. One that fits is sent
// with its head in one record.
const maxGathered = 8 << 10

var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// reply is the answer to one request.
type reply struct {
	c       *conn
	request *http.Request // nil where the head was none
	body    *body
	header  http.Header
	status  int
	buf     *bytes.Buffer // gathered
	begun   bool          // the head is sent
	chunked bool
	left    int64 // of a length that the handler announced
	closing bool  // the connection ends with this answer
	late    bool  // the handler has set its own deadline for writing
	failed  error
	parked  *Parked
}

// Header is what goes before the body.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader fixes the status. The head is sent with the first bytes that are.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write gathers or sends.
func (w *reply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.failed != nil:
		return 0, w.failed
	case !w.hasBody():
		return len(p), http.ErrBodyNotAllowed
	case w.begun:
		return w.stream(p)
	}
	w.borrow()
	if w.buf.Len()+len(p) <= maxGathered {
		return w.buf.Write(p)
	}
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.stream(p)
}

// hasBody is false where the protocol allows none.
func (w *reply) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

func (w *reply) borrow() {
	if w.buf == nil {
		w.buf = buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool makes only these
		w.buf.Reset()
	}
}

// begin sends the head of an answer whose end is not known yet, and what waits.
func (w *reply) begin() error {
	waiting := bytes.Clone(w.buf.Bytes())
	w.buf.Reset()
	w.left = -1
	if said, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
		w.left = said
	} else {
		w.chunked = true
		w.header.Set("Transfer-Encoding", "chunked")
		w.header.Del("Content-Length")
	}
	w.head()
	w.begun = true
	if err := w.send(w.buf.Bytes()); err != nil {
		return err
	}
	_, err := w.stream(waiting)
	return err
}

func (w *reply) head() {
	w.header.Set("Date", wall().UTC().Format(http.TimeFormat))
	for _, v := range w.header["Connection"] {
		w.closing = w.closing || strings.EqualFold(v, "close")
	}
	if w.closing {
		w.header.Set("Connection", "close")
	}
	fmt.Fprintf(w.buf, "HTTP/1.1 %d %s\r\n", w.status, http.StatusText(w.status))
	_ = w.header.Write(w.buf) // no line break gets through, and a buffer takes all
	w.buf.WriteString("\r\n")
}

func (w *reply) isHead() bool { return w.request != nil && w.request.Method == http.MethodHead }

func (w *reply) stream(p []byte) (int, error) {
	switch {
	case len(p) == 0 || w.isHead():
		return len(p), nil
	case w.chunked:
		// One write, so that it is one record.
		chunk := fmt.Appendf(make([]byte, 0, len(p)+16), "%x\r\n", len(p))
		if err := w.send(append(append(chunk, p...), "\r\n"...)); err != nil {
			return 0, err
		}
		return len(p), nil
	case int64(len(p)) > w.left:
		return 0, http.ErrContentLength
	}
	w.left -= int64(len(p))
	if err := w.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send bounds each write: a peer that does not read must not hold a goroutine.
func (w *reply) send(p []byte) error {
	if !w.late {
		w.failed = w.c.tls.SetWriteDeadline(wall().Add(w.c.s.WriteWithin))
	}
	if w.failed == nil {
		_, w.failed = w.c.tls.Write(p)
	}
	return w.failed
}

// finish sends what is left; false when the connection ends with it.
func (w *reply) finish() bool {
	w.WriteHeader(http.StatusOK)
	defer func() {
		if w.buf != nil && w.buf.Cap() <= 2*maxGathered {
			buffers.Put(w.buf)
		}
		w.buf = nil
	}()
	switch {
	case w.failed != nil:
	case !w.begun:
		w.borrow()
		w.whole()
	case w.chunked && !w.isHead():
		_ = w.send([]byte("0\r\n\r\n")) // told by failed
	case w.left > 0 && !w.isHead():
		return false // less than was announced
	}
	return w.failed == nil && !w.closing
}

// whole sends an answer that fits into the buffer, in one record.
func (w *reply) whole() {
	text := bytes.Clone(w.buf.Bytes())
	w.buf.Reset()
	switch {
	case !w.hasBody():
		w.header.Del("Content-Length")
	case !w.isHead() || w.header.Get("Content-Length") == "": // what GET would say is the handler's to know
		w.header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	w.head()
	if !w.isHead() {
		w.buf.Write(text)
	}
	_ = w.send(w.buf.Bytes()) // told by failed
}

// Flush sends what is there, for handlers that stream.
func (w *reply) Flush() {
	w.WriteHeader(http.StatusOK)
	if w.failed == nil && !w.begun && w.hasBody() {
		w.borrow()
		_ = w.begin() // told by failed
	}
}

// SetReadDeadline is for http.ResponseController.
func (w *reply) SetReadDeadline(t time.Time) error { return w.c.tls.SetReadDeadline(t) }

// SetWriteDeadline is for http.ResponseController; the handler keeps it from then on.
func (w *reply) SetWriteDeadline(t time.Time) error {
	w.late = true
	return w.c.tls.SetWriteDeadline(t)
}

var (
	_ http.ResponseWriter = (*reply)(nil)
	_ http.Flusher        = (*reply)(nil)
	_ io.Writer           = (*reply)(nil)
)
