// Package logs serves the logs of allocations and nodes. A terminal server reads the lines over a connection
// that the agent opens.
package logs

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/services"
)

// Reader opens the stream of a token at a terminal server.
type Reader interface {
	// Check returns an error if no terminal server is running.
	Check(ctx context.Context) error
	// Open returns lines, each the JSON of a protocol.LogItem.
	Open(ctx context.Context, token string) (io.ReadCloser, error)
}

// Handlers implements the operations.
type Handlers struct {
	*services.Services

	Chain  *middleware.Chain
	Reader Reader
	Clock  clock.Clock
}

// GetAllocationLogs handles GET /api/v1/allocations/{id}/logs.
func (s *Handlers) GetAllocationLogs(ctx context.Context, req oapi.GetAllocationLogsRequestObject) (oapi.GetAllocationLogsResponseObject, error) {
	p := req.Params
	q, err := queryOf(string(request.Or(p.Source, oapi.GetAllocationLogsParamsSourceAgent)), p.Tail, p.Since, p.Follow, p.LastEventID)
	if err != nil {
		return nil, err
	}
	id := ids.From[ids.Allocation](req.Id)
	return s.open(ctx, q, func(ctx context.Context, r *request.Call) (logstream.Request, error) {
		a, err := s.Allocations.Get(ctx, r.Caller, id)
		switch {
		case err != nil:
			return logstream.Request{}, err
		case a.Project != r.Caller.Project && !r.OutsideProjects():
			return logstream.Request{}, errs.New(errs.NotFound, "no such allocation")
		case q.Source != protocol.LogAgent && a.State != allocation.Active:
			return logstream.Request{}, errs.New(errs.AllocationNotActive, "the allocation is %s and has no log %s", a.State, q.Source).Try("read the source agent")
		}
		return logstream.Request{Tenant: a.Tenant, Project: a.Project, Allocation: a.ID}, nil
	})
}

// GetNodeLogs handles GET /api/v1/admin/nodes/{name}/logs.
func (s *Handlers) GetNodeLogs(ctx context.Context, req oapi.GetNodeLogsRequestObject) (oapi.GetNodeLogsResponseObject, error) {
	p := req.Params
	q, err := queryOf(string(request.Or(p.Source, oapi.GetNodeLogsParamsSourceSystem)), p.Tail, p.Since, p.Follow, p.LastEventID)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, q, func(ctx context.Context, _ *request.Call) (logstream.Request, error) {
		n, _, err := s.Fleet.Node(ctx, req.Name)
		return logstream.Request{Node: n.ID}, err
	})
}

// usualTail is the number of lines before a stream begins.
const usualTail = 200

// queryOf returns the query of a request. A client that resumes receives all lines after the cursor.
func queryOf(source string, tail *int, since *time.Time, follow *bool, cursor *string) (protocol.LogQuery, error) {
	q := protocol.LogQuery{Source: protocol.LogSource(source), Tail: request.Or(tail, usualTail), Follow: request.Or(follow, false)}
	if since != nil {
		q.Since = max(0, since.UnixMicro())
	}
	if cursor == nil {
		return q, nil
	}
	c, ok := protocol.ParseLogCursor(*cursor)
	if !ok {
		return q, errs.New(errs.CursorInvalid, "this is no id of a line").At("Last-Event-ID").Try("open the stream without it")
	}
	q.Since, q.Skip, q.Second, q.Tail = c.First.At, c.First.Number, c.Second, protocol.MaxLogTail
	return q, nil
}

// open opens a stream of what find returns. find is called again while the stream is open.
func (s *Handlers) open(ctx context.Context, q protocol.LogQuery, find func(context.Context, *request.Call) (logstream.Request, error)) (*stream, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	to, err := find(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.Reader.Check(ctx); err != nil {
		return nil, err
	}
	token, err := s.Chain.Token(c, r)
	if err != nil {
		return nil, err
	}
	to.Caller, to.Query, to.Trace = r.Caller, q, r.Traceparent
	ticket, err := s.Logs.Create(ctx, to)
	if err != nil {
		return nil, err
	}
	lines, err := s.Reader.Open(ctx, ticket.Token)
	if err != nil {
		s.end(ctx, ticket)
		return nil, err
	}
	again := func(ctx context.Context) error {
		now, err := s.Chain.Again(ctx, c, r, token)
		if err == nil {
			_, err = find(ctx, now)
		}
		return err
	}
	return &stream{server: s, ctx: ctx, ticket: ticket, lines: lines, again: again, events: wantsEvents(c)}, nil
}

func wantsEvents(c *gin.Context) bool {
	return slices.ContainsFunc(c.Request.Header.Values("Accept"), func(h string) bool { return strings.Contains(h, "text/event-stream") })
}

// endWithin limits the last statement of a stream.
const endWithin = 3 * time.Second

// end removes the row of a stream. A row that stays ends with its heartbeat.
func (s *Handlers) end(ctx context.Context, t logstream.Ticket) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	_ = s.Logs.End(ctx, t.ID)
}
