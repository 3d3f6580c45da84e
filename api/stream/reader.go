package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// hub is the reader of the process and its window. It exists while a client is connected.
type hub struct {
	*window
	clients int
	stop    context.CancelFunc
	// The reader closes failed after an error.
	failed chan struct{}
}

// join registers a client, and starts the reader with the first one.
func (s *Server) join(ctx context.Context, tenant ids.Tenant) (*hub, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hub
	if h == nil {
		// The reader outlives the request that starts it, and reads the events of all tenants.
		reading, stop := context.WithCancel(pg.WithScope(context.WithoutCancel(ctx), pg.Platform))
		h = &hub{window: newWindow(valueOr(s.WindowEvents, windowEvents), valueOr(s.WindowBytes, windowBytes)), stop: stop, failed: make(chan struct{})}
		s.hub = h
		go s.read(reading, h)
	}
	h.clients++
	h.join(tenant)
	return h, func() { s.leave(h, tenant) }
}

// leave ends the reader with the last client.
func (s *Server) leave(h *hub, tenant ids.Tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.leave(tenant)
	if h.clients--; h.clients > 0 {
		return
	}
	h.stop()
	if s.hub == h {
		s.hub = nil
	}
}

// read fills the window until ctx ends. A failure ends all streams: their clients come back, and by then the database may
// have come back, too.
func (s *Server) read(ctx context.Context, h *hub) {
	defer h.stop()
	err := s.fill(ctx, h.window)
	if ctx.Err() != nil {
		return
	}
	s.Log.WarnContext(ctx, "event streams end", slog.Any("err", err))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == h {
		s.hub = nil // the next client starts another reader
	}
	close(h.failed)
}

func (s *Server) fill(ctx context.Context, w *window) error {
	// Listen starts before the first read, so that an event in between causes a wake-up.
	wake, stop := s.Hints.Listen(event.Topic)
	defer stop()
	timer := time.NewTicker(valueOr(s.Interval, readEvery))
	defer timer.Stop()
	from, err := s.Events.Latest(ctx, ids.Tenant{})
	if err != nil {
		return err
	}
	w.begin(from)
	for {
		items, next, err := s.page(ctx, ids.Tenant{}, from)
		if err != nil {
			return err
		}
		w.add(items)
		from = next
		if len(items) == batch {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-timer.C:
		}
	}
}

// page reads the next events and encodes them.
func (s *Server) page(ctx context.Context, tenant ids.Tenant, from event.Position) ([]*item, event.Position, error) {
	events, err := s.Events.After(ctx, tenant, from, batch)
	if err != nil {
		return nil, from, err
	}
	items := make([]*item, len(events))
	for n := range events {
		if items[n], err = encode(&events[n]); err != nil {
			return nil, from, err
		}
		from = events[n].Position
	}
	return items, from, nil
}
