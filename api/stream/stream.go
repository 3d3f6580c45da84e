// Package stream sends events to clients as server-sent events or over a websocket. One reader for each
// process reads the outbox, and its window of recent events serves all clients. The package stores no
// state about a client: the ID of the last event that the client received is its position, so a client can
// reconnect to any replica. It filters by tenant, project and subject, and makes no other check of rights.
package stream

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	// Proxies cut connections that are silent for half a minute or more.
	heartbeatEvery = 15 * time.Second
	// readEvery is the interval of reads without a hint. A hint may be lost, and an event becomes
	// visible only after every older transaction has ended.
	readEvery = time.Second
	// notificationEvery is the interval of reads of the notifications of a user without a hint.
	notificationEvery = 30 * time.Second
	// batch limits the events of one read and of one write.
	batch = 200
	// patience limits one write. The server closes the connection of a slower client, which
	// reconnects with the ID of the last event that it received.
	patience = 10 * time.Second
	// mostPerCaller limits the streams of one caller on one server. A user with more has forgotten some.
	mostPerCaller = 32
)

// EventSource reads stored events.
type EventSource interface {
	After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error)
	Find(ctx context.Context, tenant ids.Tenant, id ids.Event) (event.Position, error)
	Latest(ctx context.Context, tenant ids.Tenant) (event.Position, error)
}

// Server sends events to clients, each on the goroutine of its request.
type Server struct {
	Events EventSource
	Hints  *hint.Bus
	Log    *slog.Logger
	Clock  clock.Clock
	// These are for tests; zero means the constants above.
	Heartbeat, Interval, NotificationInterval, Patience time.Duration
	// WindowEvents and WindowBytes bound the window; zero means the constants of the window.
	WindowEvents, WindowBytes int

	clients [transports]atomic.Int64

	mu      sync.Mutex
	hub     *hub // nil without a client
	inboxes map[string]*inbox
	callers map[uuid.UUID]int // the number of open streams
}

// transport names the protocol of a client.
type transport int

const (
	sse transport = iota
	webSocket
	transports
)

var transportNames = [transports]string{"sse", "websocket"}

var clients = prometheus.NewDesc("gpuaas_stream_clients", "Connected clients of event streams.", []string{"transport"}, nil)

// Describe sends the description of the metric.
func (*Server) Describe(c chan<- *prometheus.Desc) { c <- clients }

// Collect reads the number of clients.
func (s *Server) Collect(c chan<- prometheus.Metric) {
	for t := range transports {
		c <- prometheus.MustNewConstMetric(clients, prometheus.GaugeValue, float64(s.clients[t].Load()), transportNames[t])
	}
}

// Request names the events and the position of a client.
type Request struct {
	Audience
	// Caller identifies the user or the service account.
	Caller uuid.UUID
	// After is the ID of the last event that the client has received, "0" for the oldest stored event, or "" for
	// the present.
	After string
	// Notifications are the notifications of the user; nil for a service account.
	Notifications *Notifications
}

// Stream has found its start position.
type Stream struct {
	server        *Server
	ctx           context.Context //nolint:containedctx // of the request, which the stream does not outlive
	to            Audience
	from          event.Position
	notifications *Notifications
}

// Open finds the start position. The stream counts as one of the caller until ctx ends.
func (s *Server) Open(ctx context.Context, r Request) (*Stream, error) {
	if err := s.enter(ctx, r.Caller); err != nil {
		return nil, err
	}
	from, err := s.start(ctx, r.Tenant, r.After)
	if err != nil {
		return nil, err
	}
	return &Stream{server: s, ctx: ctx, to: r.Audience, from: from, notifications: r.Notifications}, nil
}

// enter counts a stream of the caller until ctx ends.
func (s *Server) enter(ctx context.Context, caller uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers[caller] >= mostPerCaller {
		return errs.New(errs.ConcurrencyLimitReached, "you have %d open streams of events", mostPerCaller).Try("close one of them")
	}
	if s.callers == nil {
		s.callers = map[uuid.UUID]int{}
	}
	s.callers[caller]++
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.callers[caller]--; s.callers[caller] == 0 {
			delete(s.callers, caller)
		}
	})
	return nil
}

func (s *Server) start(ctx context.Context, tenant ids.Tenant, after string) (event.Position, error) {
	switch after {
	case "":
		return s.Events.Latest(ctx, tenant)
	case "0":
		return event.Position{}, nil
	}
	id, err := ids.Parse[ids.Event](after)
	if err != nil {
		return event.Position{}, errs.Invalid("since", "is not the id of an event")
	}
	p, err := s.Events.Find(ctx, tenant, id)
	if errs.CodeOf(err) == errs.NotFound {
		return event.Position{}, errs.New(errs.NotFound, "the event is not stored any more, or never existed").At("since").
			Try("read the resources again, and follow from now on")
	}
	return p, err
}

// SendSSE writes server-sent events until the client disconnects or is too slow, or the context of the stream ends. It
// returns no error when the client disconnects, because no client would receive it.
func (f *Stream) SendSSE(w http.ResponseWriter) error {
	defer f.count(sse)()
	_ = f.send(f.ctx, newWriter(w, f.server))
	return nil
}

func (f *Stream) count(t transport) (end func()) {
	f.server.clients[t].Add(1)
	return func() { f.server.clients[t].Add(-1) }
}

func valueOr[T int | time.Duration](v, usual T) T {
	if v == 0 {
		return usual
	}
	return v
}
