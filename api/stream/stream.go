// Package stream sends facts to clients as they happen, as server-sent events. It
// keeps nothing about a client: where one was is in the id of the last event that
// it saw, so a lost connection goes on anywhere. It filters by tenant and knows
// no other right.
package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	// A client asks again this long after it lost us.
	retry = "retry: 2000\n\n"
	// Proxies cut connections that are silent for half a minute or more.
	heartbeatEvery = 15 * time.Second
	// Hints may be lost, and a fact becomes visible only once every transaction
	// that is older has ended: so look by ourselves, too.
	lookEvery = time.Second
	// One read, and what a client must take in one go.
	batch = 200
	// A client that cannot take a batch within this is let go. It comes back with
	// the id of the last event that it got.
	patience = 10 * time.Second
)

// Facts is where events are read from.
type Facts interface {
	After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error)
	Find(ctx context.Context, tenant ids.Tenant, id ids.Event) (event.Position, error)
	Latest(ctx context.Context, tenant ids.Tenant) (event.Position, error)
}

// Server follows facts for clients, each on its own goroutine: that of the request.
type Server struct {
	Facts Facts
	Hints *hint.Bus
	Log   *slog.Logger
	Clock clock.Clock
	// These are for tests; zero means the constants above.
	Heartbeat, Look, Patience time.Duration
}

// audience is whose facts a client gets.
type audience struct {
	tenant  ids.Tenant
	project ids.Project
}

// Open finds where to start: after the event of that id, with "0" at the oldest
// that is kept, with "" at now. The zero tenant follows everyone's, the zero
// project all of the tenant's. What it returns writes until the client goes or is
// too slow, or ctx ends.
func (s *Server) Open(ctx context.Context, tenant ids.Tenant, project ids.Project, after string) (func(http.ResponseWriter) error, error) {
	from, err := s.start(ctx, tenant, after)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error { return s.follow(ctx, w, audience{tenant, project}, from) }, nil
}

func (s *Server) start(ctx context.Context, tenant ids.Tenant, after string) (event.Position, error) {
	switch after {
	case "":
		return s.Facts.Latest(ctx, tenant)
	case "0":
		return event.Position{}, nil
	}
	id, err := ids.Parse[ids.Event](after)
	if err != nil {
		return event.Position{}, errs.Invalid("since", "is not the id of an event")
	}
	p, err := s.Facts.Find(ctx, tenant, id)
	if errs.CodeOf(err) == errs.NotFound {
		return event.Position{}, errs.New(errs.NotFound, "the event is not stored any more, or never existed").At("since").
			Try("read the resources again, and follow from now on")
	}
	return p, err
}

// follow ends without an error when the client is gone: there is nobody to tell.
func (s *Server) follow(ctx context.Context, w http.ResponseWriter, to audience, from event.Position) error {
	// Listen before the first look, so that what happens in between wakes us.
	wake, stop := s.Hints.Listen(event.Topic)
	defer stop()
	look, heartbeat := time.NewTicker(or(s.Look, lookEvery)), time.NewTicker(or(s.Heartbeat, heartbeatEvery))
	defer look.Stop()
	defer heartbeat.Stop()

	out := newWriter(w, s.Clock, or(s.Patience, patience))
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
func (s *Server) sendAfter(ctx context.Context, out *writer, to audience, from event.Position) (event.Position, error) {
	for {
		events, err := s.Facts.After(ctx, to.tenant, from, batch)
		if err != nil {
			return from, err
		}
		for _, e := range events {
			from = e.Position
			if to.project != (ids.Project{}) && e.Project != to.project {
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

// errSlow means that the client did not take what it was sent.
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
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
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

func or(v, usual time.Duration) time.Duration {
	if v == 0 {
		return usual
	}
	return v
}
