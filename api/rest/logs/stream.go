package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// patience limits one write to a client.
	patience = 10 * time.Second
	// heartbeatEvery finds clients that are gone. Clients expect it.
	heartbeatEvery = 15 * time.Second
	// countEvery is the interval of the heartbeats of the row.
	countEvery = 5 * time.Second
	// waitingItems are read while the client receives others.
	waitingItems = 256
)

// stream is an open stream. It replaces the generated response, which would copy a reader without flushing.
type stream struct {
	server *Handlers
	ctx    context.Context //nolint:containedctx // of the request
	ticket logstream.Ticket
	lines  io.ReadCloser
	again  func(context.Context) error
	events bool // server-sent events
}

// VisitGetAllocationLogsResponse writes until the log or the client ends.
func (s *stream) VisitGetAllocationLogsResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitGetNodeLogsResponse writes until the log or the client ends.
func (s *stream) VisitGetNodeLogsResponse(w http.ResponseWriter) error { return s.write(w) }

func (s *stream) write(w http.ResponseWriter) error {
	ctx, end := context.WithCancelCause(s.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		end(middleware.WhileAllowed(ctx, s.counted()))
	}()
	items := make(chan protocol.LogItem, waitingItems)
	go s.read(ctx, items)
	defer func() {
		end(nil)
		_ = s.lines.Close()
		<-watched // it reads gin's context, which belongs to the next request soon
		s.server.end(s.ctx, s.ticket)
	}()
	out := s.begin(w)
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			out.item(endOf(context.Cause(ctx)))
			over = true
		case item := <-items:
			over = out.item(item)
			for more := len(items); more > 0 && !over; more-- {
				over = out.item(<-items)
			}
		case <-beat.C:
			out.heartbeat()
		}
		if err := out.flush(); err != nil {
			return nil // the client is gone
		}
	}
	return nil
}

// counted checks the rights each time, and sends the heartbeat of the row now and then.
func (s *stream) counted() func(context.Context) error {
	last := s.server.Clock.Now()
	return func(ctx context.Context) error {
		if now := s.server.Clock.Now(); now.Sub(last) >= countEvery {
			last = now
			if err := s.server.Logs.Beat(ctx, s.ticket.ID); err != nil {
				return err
			}
		}
		return s.again(ctx)
	}
}

// read passes the items of the node on. The last one is an end.
func (s *stream) read(ctx context.Context, to chan<- protocol.LogItem) {
	pass := func(i protocol.LogItem) error {
		select {
		case to <- i:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := protocol.ReadLog(s.lines, pass); err != nil && ctx.Err() == nil {
		_ = pass(protocol.LogItem{End: "the connection of the node ended"})
	}
}

// endOf returns the end of a stream whose caller has lost the right to it. The text begins with the reason.
func endOf(err error) protocol.LogItem {
	known, ok := errors.AsType[*errs.Error](err)
	switch {
	case ok && known.Code == errs.AllocationNotActive:
		return protocol.LogItem{End: string(protocol.NotActive) + ": " + known.Message}
	case ok:
		return protocol.LogItem{End: string(known.Code) + ": " + known.Message}
	}
	return protocol.LogItem{End: "the server cannot check the rights to the stream"}
}

// reasonOf returns the reason of an end. A client opens a stream again only after "lost".
func reasonOf(end string) string {
	code, _, _ := strings.Cut(end, ":")
	switch {
	case end == "complete":
		return "complete"
	case code == string(errs.TokenExpired): // the client opens the stream again with a new one
		return "lost"
	case code == string(protocol.NotActive):
		return "allocation_ended"
	case code == string(errs.Forbidden), code == string(errs.NotFound), strings.HasPrefix(code, "token_"):
		return "right_lost"
	}
	return "lost"
}

// The data of events, as the schemas LogLine, LogDropped and LogEnd.
type (
	logLine struct {
		At   time.Time `json:"at"`
		Text string    `json:"text"`
	}
	logDropped struct {
		Lines int `json:"lines"`
	}
	logEnd struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
)

// writer writes items in one of the two forms.
type writer struct {
	to     io.Writer
	ctl    *http.ResponseController
	events bool
	after  func(time.Duration) time.Time
	buffer []byte
}

func (s *stream) begin(w http.ResponseWriter) *writer {
	out := &writer{to: w, ctl: http.NewResponseController(w), events: s.events, after: func(d time.Duration) time.Time { return s.server.Clock.Now().Add(d) }}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if s.events {
		h.Set("Content-Type", "text/event-stream")
		out.buffer = append(out.buffer, "retry: 2000\n\n"...)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer lines
	w.WriteHeader(http.StatusOK)
	return out
}

// item appends an item, and reports whether it is the last one. A line in plain text begins with its time, so that no line can
// imitate the marks of the server.
func (o *writer) item(i protocol.LogItem) (over bool) {
	switch {
	case o.events && i.End != "":
		o.event("end", logEnd{reasonOf(i.End), i.End})
	case o.events && i.Dropped > 0:
		o.event("dropped", logDropped{i.Dropped})
	case o.events && i.At > 0:
		o.buffer = fmt.Appendf(o.buffer, "id: %s\n", i.Cursor())
		o.event("line", logLine{i.Time(), i.Text})
	case o.events:
	case i.End != "" && i.End != "complete":
		o.buffer = fmt.Appendf(o.buffer, "-- the log ended: %s\n", i.End)
	case i.Dropped > 0:
		o.buffer = fmt.Appendf(o.buffer, "-- %d lines were dropped\n", i.Dropped)
	case i.At > 0:
		o.buffer = fmt.Appendf(o.buffer, "%s %s\n", i.Time().Format("2006-01-02T15:04:05.000000Z"), i.Text)
	}
	return i.End != ""
}

func (o *writer) event(kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // none of the types has a value that cannot be encoded
	}
	o.buffer = fmt.Appendf(o.buffer, "event: %s\ndata: %s\n\n", kind, text)
}

func (o *writer) heartbeat() {
	if o.events {
		o.buffer = append(o.buffer, ": still here\n\n"...)
	}
}

// flush writes what was gathered. The write timeout of the server is for responses that end; here each write has its own.
func (o *writer) flush() error {
	if err := o.ctl.SetWriteDeadline(o.after(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := o.to.Write(o.buffer)
	o.buffer = o.buffer[:0]
	if err != nil {
		return err
	}
	return o.ctl.Flush()
}
