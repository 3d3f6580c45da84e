// Package stream sends events to clients as server-sent events. It stores no state about a client:
// the ID of the last event that the client received is its position, so a client can reconnect to
// any replica. The package filters by tenant and project, and makes no other check of rights.
package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	// retry makes a client reconnect two seconds after it lost the connection.
	retry = "retry: 2000\n\n"
	// Proxies cut connections that are silent for half a minute or more.
	heartbeatEvery = 15 * time.Second
	// readEvery is the interval of reads without a hint. A hint may be lost, and an event becomes
	// visible only after every older transaction has ended.
	readEvery = time.Second
	// batch limits the events of one read and of one write.
	batch = 200
	// patience limits one write. The server closes the connection of a slower client, which
	// reconnects with the ID of the last event that it received.
	patience = 10 * time.Second
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
	Heartbeat, Interval, Patience time.Duration

	clients atomic.Int64
}

var clients = prometheus.NewDesc("gpuaas_stream_clients", "Connected clients of event streams.", []string{"transport"}, nil)

// Describe sends the description of the metric.
func (*Server) Describe(c chan<- *prometheus.Desc) { c <- clients }

// Collect reads the number of clients.
func (s *Server) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.MustNewConstMetric(clients, prometheus.GaugeValue, float64(s.clients.Load()), "sse")
}

// Audience selects the events that a client receives.
type Audience struct {
	// Tenant owns the events. The zero tenant means all tenants.
	Tenant ids.Tenant
	// Whole selects all events of the tenant. Without it, an event belongs to one of Projects or, with Money, to the
	// billing of the tenant.
	Whole    bool
	Projects map[ids.Project]bool
	Money    bool
}

// Equal returns whether both select the same events.
func (a Audience) Equal(b Audience) bool {
	return a.Tenant == b.Tenant && a.Whole == b.Whole && a.Money == b.Money && maps.Equal(a.Projects, b.Projects)
}

func (a Audience) receives(e event.Event) bool {
	if e.Project == (ids.Project{}) {
		return a.Whole || a.Money && (e.Stream == event.StreamBilling || e.Stream == event.StreamPayments)
	}
	return a.Whole || a.Projects[e.Project]
}

// Open finds the start position: after the event with the given ID, at the oldest stored event for
// "0", or at the present for "". The returned function writes events until the client disconnects or
// is too slow, or ctx ends.
func (s *Server) Open(ctx context.Context, to Audience, after string) (func(http.ResponseWriter) error, error) {
	from, err := s.start(ctx, to.Tenant, after)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error { return s.send(ctx, w, to, from) }, nil
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

// send returns no error when the client disconnects, because no client would receive it.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, to Audience, from event.Position) error {
	// Listen starts before the first read, so that an event in between causes a wake-up.
	wake, stop := s.Hints.Listen(event.Topic)
	defer stop()
	s.clients.Add(1)
	defer s.clients.Add(-1)
	look, heartbeat := time.NewTicker(valueOr(s.Interval, readEvery)), time.NewTicker(valueOr(s.Heartbeat, heartbeatEvery))
	defer look.Stop()
	defer heartbeat.Stop()

	out := newWriter(w, s.Clock, valueOr(s.Patience, patience))
	out.text(retry)
	for out.send() == nil {
		next, err := s.sendAfter(ctx, out, to, from)
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, errSlow):
			// The status is long written. Closing makes the client come back, and
			// by then the database may have done so, too.
			s.Log.WarnContext(ctx, "event stream ends", slog.Any("err", err))
			return nil
		case err != nil:
			return nil
		}
		from = next
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-look.C:
		case <-heartbeat.C:
			out.text(": still here\n\n")
		}
	}
	return nil
}

// sendAfter writes everything that there is after from.
func (s *Server) sendAfter(ctx context.Context, out *writer, to Audience, from event.Position) (event.Position, error) {
	for {
		events, err := s.Events.After(ctx, to.Tenant, from, batch)
		if err != nil {
			return from, err
		}
		for _, e := range events {
			from = e.Position
			if !to.receives(e) {
				continue
			}
			if err := out.event(e); err != nil {
				return from, err
			}
		}
		if err := out.send(); err != nil {
			return from, err
		}
		if len(events) < batch {
			return from, nil
		}
	}
}

// errSlow means that the client did not receive a write in time.
var errSlow = errors.New("client disconnected or too slow")

// writer gathers events and sends them under one deadline.
type writer struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	clock clock.Clock
	buf   []byte
	// patience bounds one write.
	patience time.Duration
}

func newWriter(w http.ResponseWriter, c clock.Clock, patience time.Duration) *writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	w.WriteHeader(http.StatusOK)
	return &writer{w: w, ctl: http.NewResponseController(w), clock: c, patience: patience}
}

func (o *writer) text(s string) { o.buf = append(o.buf, s...) }

func (o *writer) event(e event.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding event %s: %w", e.ID, err)
	}
	o.text("id: " + e.ID.String() + "\nevent: " + e.Type + "\ndata: ")
	o.buf = append(o.buf, data...) // JSON has no line break of its own
	o.text("\n\n")
	return nil
}

// send hands over what was gathered. The server's write timeout is for answers
// that end; here each write has its own.
func (o *writer) send() error {
	if len(o.buf) == 0 {
		return nil
	}
	if err := o.ctl.SetWriteDeadline(o.clock.Now().Add(o.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errSlow
	}
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	if err == nil {
		err = o.ctl.Flush()
	}
	if err != nil {
		return errSlow
	}
	return nil
}

func valueOr(v, usual time.Duration) time.Duration {
	if v == 0 {
		return usual
	}
	return v
}
