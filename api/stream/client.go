package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaas/platform/event"
)

// outlet sends to one client. Its methods gather what send writes under one deadline.
type outlet interface {
	begin()
	event(*item)
	notification(kind string, data []byte)
	heartbeat()
	// send returns errSlow when the client disconnected or did not receive it in time.
	send() error
}

// errSlow means that the client did not receive a write in time.
var errSlow = errors.New("client disconnected or too slow")

// client is one connection and its position.
type client struct {
	*Stream
	out   outlet
	hub   *hub
	items []*item // of the last view of the window
	inbox *inbox  // nil without notifications
	given inboxPosition
}

// send writes until the client disconnects or is too slow, or ctx ends. It returns the reason.
func (f *Stream) send(ctx context.Context, out outlet) error {
	h, leave := f.server.join(ctx, f.to.Tenant)
	defer leave()
	c := &client{Stream: f, out: out, hub: h}
	if f.notifications != nil {
		b, end := f.server.openInbox(ctx, f.notifications)
		defer end()
		c.inbox, c.given = b, b.start()
	}
	heartbeat := time.NewTicker(valueOr(f.server.Heartbeat, heartbeatEvery))
	defer heartbeat.Stop()
	out.begin()
	for {
		changed, noticed, err := c.next(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.failed:
			return errFailed
		case <-changed:
		case <-noticed:
		case <-heartbeat.C:
			out.heartbeat()
		}
	}
}

// errFailed means that the server cannot read events now.
var errFailed = errors.New("events cannot be read")

// next sends all that there is, and returns what to wait for.
func (c *client) next(ctx context.Context) (changed, noticed <-chan struct{}, err error) {
	if c.inbox != nil {
		noticed = c.inbox.send(c.out, &c.given)
	}
	for ctx.Err() == nil {
		v := c.hub.after(c.to.Tenant, c.from, c.items)
		c.items = v.items
		n := len(v.items)
		if v.behind {
			if n, err = c.catchUp(ctx, v.head); err != nil {
				return nil, nil, err
			}
		} else {
			c.write(v.items)
			c.from = later(c.from, v.head)
		}
		if err := c.out.send(); err != nil {
			return nil, nil, err
		}
		// A window that has not begun notifies its clients when it does.
		if n < batch && (!v.behind || !v.begun) {
			return v.changed, noticed, nil
		}
	}
	return nil, nil, context.Cause(ctx)
}

// catchUp sends a page from the database. A page that is not full has all events of the client up to head, which the
// reader had read before.
func (c *client) catchUp(ctx context.Context, head event.Position) (int, error) {
	items, next, err := c.server.page(ctx, c.to.Tenant, c.from)
	if err != nil {
		if ctx.Err() == nil {
			c.server.Log.WarnContext(ctx, "event stream ends", slog.Any("err", err))
		}
		return 0, errors.Join(errFailed, err)
	}
	c.write(items)
	if c.from = next; len(items) < batch {
		c.from = later(c.from, head)
	}
	return len(items), nil
}

func (c *client) write(items []*item) {
	for _, i := range items {
		if c.to.receives(i) {
			c.out.event(i)
		}
	}
}
