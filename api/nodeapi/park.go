package nodeapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// parked is a request that waits for its response without a goroutine and without buffers. Of the
// request, only the connection with its TLS state is left.
type parked struct {
	c       *conn
	method  string
	closing bool
}

// park removes the connection of a request from its http.Server. The handler returns without a response,
// and resume sends it later.
func park(w http.ResponseWriter, r *http.Request) (*parked, error) {
	hijacked, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("parking a request: %w", err)
	}
	c, ok := hijacked.(*conn)
	if !ok {
		_ = hijacked.Close()
		return nil, errs.New(errs.Internal, "a poll was not served by Serve")
	}
	c.t.parked.Add(1)
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.own[c] = struct{}{}
	// The server that accepts the connection again would not see bytes that this one has read ahead.
	ahead := r.ContentLength != 0 || buffered.Reader.Buffered() > 0
	return &parked{c: c, method: r.Method, closing: ahead || r.Close || !r.ProtoAtLeast(1, 1)}, nil
}

// resume sends the response on a new goroutine and hands the connection back. It is called once.
func (p *parked) resume(answer func(http.ResponseWriter)) {
	go func() {
		defer p.c.t.parked.Done()
		defer p.abort()
		w := &response{header: http.Header{}, status: http.StatusOK}
		answer(w)
		closing := p.closing || w.header.Get("Connection") == "close" || p.c.t.isEnding()
		text := w.encode(p.method, closing)
		err := p.c.SetWriteDeadline(wall().Add(p.c.t.writeWithin))
		if err == nil {
			_, err = p.c.Write(text)
		}
		if err == nil {
			err = p.c.SetWriteDeadline(time.Time{}) // an expired one would fail the next TLS record
		}
		if err != nil || closing {
			_ = p.c.Close()
			return
		}
		p.c.t.deliver(p.c)
	}()
}

// abort closes the connection after a panic in the response, as net/http does for a handler. A fault in
// one response must not end the process.
func (p *parked) abort() {
	if fault := recover(); fault != nil {
		p.c.t.log.Error("panic in the response to a poll", "peer", p.c.tcp.RemoteAddr(), "fault", fault, "stack", string(debug.Stack()))
		_ = p.c.Close()
	}
}

// gone reports whether the peer has closed the connection, as far as the kernel knows.
func (p *parked) gone() bool { return hungUp(p.c.tcp) }

// response collects a response, so that it is sent in one TLS record.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the response.
func (w *response) Header() http.Header { return w.header }

// WriteHeader sets the status.
func (w *response) WriteHeader(status int) { w.status = status }

// Write adds to the body.
func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }

func (w *response) encode(method string, closing bool) []byte {
	w.header.Set("Date", wall().UTC().Format(http.TimeFormat))
	w.header.Del("Connection")
	var text bytes.Buffer
	_ = (&http.Response{ // a buffer accepts all writes
		StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
		Close: closing, Request: &http.Request{Method: method},
	}).Write(&text)
	return text.Bytes()
}
