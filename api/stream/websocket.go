package stream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Subprotocol names the protocol of events.
const Subprotocol = "gpuaas.events.v1"

// closeRights is the close code after a caller has lost the right to the events.
const closeRights websocket.StatusCode = 4401

// closing bounds the time between the end of the right and that of the connection.
const closing = time.Second

// SendWebSocket sends the stream over a websocket until the client disconnects or is too slow, or the context of the
// stream ends. handshake.Check has accepted the request.
func (f *Stream) SendWebSocket(w http.ResponseWriter, r *http.Request) error {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}})
	if err != nil {
		f.server.Log.DebugContext(f.ctx, "websocket was not accepted", "err", err)
		return nil // the library has responded
	}
	defer f.count(webSocket)()
	ctx, end := context.WithCancelCause(f.ctx)
	defer end(nil)
	// Reading rejects messages of the client, and finds that the client has gone. It must not end with ctx, because the
	// library would close the connection without the close code.
	gone := conn.CloseRead(context.WithoutCancel(f.ctx))
	defer context.AfterFunc(gone, func() { end(errSlow) })()
	// A client that receives nothing does not delay the end.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closing, func() { _ = conn.CloseNow() }) })()
	s := &socket{conn: conn, ctx: context.WithoutCancel(f.ctx), patience: valueOr(f.server.Patience, patience), broken: func() { end(errSlow) }}
	if why := f.send(ctx, s); !errors.Is(why, errSlow) {
		_ = conn.Close(closeCode(why), "")
	}
	_ = conn.CloseNow()
	return nil
}

// closeCode returns the code for the reason of an end.
func closeCode(why error) websocket.StatusCode {
	switch code := errs.CodeOf(why); {
	case errors.Is(why, context.Canceled):
		return websocket.StatusServiceRestart
	case errors.Is(why, errFailed), errors.Is(why, context.DeadlineExceeded), code == errs.Internal, code == errs.Unavailable, code == errs.ProviderFailed:
		return websocket.StatusTryAgainLater
	}
	return closeRights
}

// socket sends messages over a websocket.
type socket struct {
	conn     *websocket.Conn
	ctx      context.Context //nolint:containedctx // of the request, without its end
	patience time.Duration
	gathered [][]byte
	broken   func()
}

func (*socket) begin() {}

func (o *socket) event(i *item) { o.gathered = append(o.gathered, i.data) }

func (o *socket) notification(kind string, data []byte) {
	o.gathered = append(o.gathered, []byte(`{"event_type":"`+kind+`","payload":`+string(data)+`}`))
}

// heartbeat sends a ping. Another goroutine waits for the response, so that events are not delayed.
func (o *socket) heartbeat() {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, o.patience)
		defer cancel()
		if o.conn.Ping(ctx) != nil {
			o.broken()
		}
	}()
}

func (o *socket) send() error {
	if len(o.gathered) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(o.ctx, o.patience)
	defer cancel()
	for n, data := range o.gathered {
		if o.conn.Write(ctx, websocket.MessageText, data) != nil {
			return errSlow
		}
		o.gathered[n] = nil
	}
	o.gathered = o.gathered[:0]
	return nil
}
