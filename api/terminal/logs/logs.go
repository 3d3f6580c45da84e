// Package logs reads logs of nodes over the connections that agents open. The role api calls Local where the role terminal runs in
// the same process, and Remote over HTTPS where it does not. Both redeem a token that the role api has made.
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/protocol"
)

// Local is the role terminal.
type Local struct {
	Streams *logstream.Service
	Dial    func(ctx context.Context, to relay.Target) (net.Conn, error)
	Log     *slog.Logger
	Clock   clock.Clock
}

// Check reports that this process is a terminal server.
func (l *Local) Check(context.Context) error { return nil }

// Open redeems the token and returns the stream of the node.
func (l *Local) Open(ctx context.Context, token string) (io.ReadCloser, error) {
	to, err := l.Streams.Redeem(ctx, token)
	if err != nil {
		return nil, err
	}
	return l.Dial(ctx, relay.Target{Node: to.Node, Allocation: to.Allocation, Fence: to.Fence, Kind: protocol.StreamLogs, Log: &to.Query, Trace: to.Trace})
}

// patience limits one write to the role api.
const patience = 10 * time.Second

// problem is the response to a token that opens no stream.
type problem struct {
	Code    errs.Code `json:"code"`
	Message string    `json:"message"`
}

// ServeHTTP sends a stream to the role api: POST with the token in the Authorization header.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctl := http.NewResponseController(w)
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Method != http.MethodPost || !bearer {
		l.reject(w, r, errs.New(errs.NotFound, "there is no such path"))
		return
	}
	if err := ctl.SetWriteDeadline(l.Clock.Now().Add(protocol.RelayWithin + patience)); err != nil {
		l.Log.WarnContext(r.Context(), "deadline of a stream of logs", "err", err)
	}
	lines, err := l.Open(r.Context(), token)
	if err != nil {
		l.reject(w, r, err)
		return
	}
	defer lines.Close() //nolint:errcheck // its end is the end of the stream
	defer context.AfterFunc(r.Context(), func() { _ = lines.Close() })()
	w.WriteHeader(http.StatusOK)
	p := make([]byte, 32<<10)
	for err := ctl.Flush(); err == nil; err = ctl.Flush() { // the header first: the log may be silent
		n, ended := lines.Read(p)
		if err := ctl.SetWriteDeadline(l.Clock.Now().Add(patience)); err != nil {
			return
		}
		if _, err := w.Write(p[:n]); err != nil || ended != nil {
			return
		}
	}
}

func (l *Local) reject(w http.ResponseWriter, r *http.Request, err error) {
	out := problem{errs.Internal, "the stream of logs was not opened"}
	if known, ok := errors.AsType[*errs.Error](err); ok {
		out = problem{known.Code, known.Message}
	}
	l.Log.InfoContext(r.Context(), "stream of logs not opened", "code", out.Code, "err", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(response.StatusOf(out.Code))
	if text, err := json.Marshal(out); err == nil {
		_, _ = w.Write(text)
	}
}
