package stream

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Subprotocol names the protocol of events.
const Subprotocol = "gpuaas.events.v1"

// bearer begins the subprotocol with the token of a client that cannot send headers.
const bearer = "gpuaas.bearer."

// closeRights is the close code after a caller has lost the right to the events.
const closeRights websocket.StatusCode = 4401

// closing bounds the time between the end of the right and that of the connection.
const closing = time.Second

// CheckUpgrade returns an error if the request cannot become a websocket for events.
func CheckUpgrade(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key"))
	switch {
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return errs.New(errs.BadRequest, "the request is no handshake of a websocket").At("Upgrade").Try("use a websocket client, or GET /api/v1/events")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return errs.New(errs.BadRequest, "the version of the websocket protocol is not 13").At("Sec-WebSocket-Version").Try("use version 13")
	case err != nil || len(key) != 16 || len(r.Header["Sec-Websocket-Key"]) != 1:
		return errs.New(errs.BadRequest, "the key of the websocket is not 16 bytes in base64").At("Sec-WebSocket-Key").Try("use a websocket client")
	case !hasToken(r.Header, "Sec-Websocket-Protocol", Subprotocol):
		return errs.New(errs.BadRequest, "the client offers no subprotocol that the server has").At("Sec-WebSocket-Protocol").Try("offer " + Subprotocol)
	}
	return nil
}

// TokenOf returns the token that a client offers as a subprotocol.
func TokenOf(h http.Header) (string, error) {
	found := ""
	for _, offered := range tokens(h, "Sec-Websocket-Protocol") {
		text, is := strings.CutPrefix(offered, bearer)
		if !is {
			continue
		}
		token, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(token) == 0 || found != "" {
			return "", errs.New(errs.BadRequest, "the token is not base64url, or is offered twice").At("Sec-WebSocket-Protocol").
				Try("offer " + bearer + " and the token in base64url without padding")
		}
		found = string(token)
	}
	return found, nil
}

func tokens(h http.Header, name string) (all []string) {
	for _, line := range h[name] {
		for part := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}

func hasToken(h http.Header, name, want string) bool {
	for _, t := range tokens(h, name) {
		if strings.EqualFold(t, want) {
			return true
		}
	}
	return false
}

// SendWebSocket sends the stream over a websocket until the client disconnects or is too slow, or the context of the
// stream ends. CheckUpgrade has accepted the request.
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

func (o *socket) notice(kind string, data []byte) {
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
