// Package events measures event streams to clients and the outbox.
package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// braces is the number of opening braces in the frame of one event. Clients count them, because a byte is never cut.
const braces = 2

// tenants share the clients.
const tenants = 20

// memory is an outbox in memory, so that a row measures the fan-out and no database.
type memory struct {
	mu  sync.Mutex
	all []event.Event
}

func (m *memory) add(events ...event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		e.Position = event.Position{XID: 1, Seq: int64(len(m.all) + 1)}
		m.all = append(m.all, e)
	}
}

// After implements stream.EventSource.
func (m *memory) After(_ context.Context, _ ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.all[min(int(from.Seq), len(m.all)):]
	return next[:min(limit, len(next))], nil
}

// Find implements stream.EventSource.
func (*memory) Find(context.Context, ids.Tenant, ids.Event) (event.Position, error) {
	return event.Position{}, errors.New("the bench does not resume in memory")
}

// Latest implements stream.EventSource.
func (m *memory) Latest(context.Context, ids.Tenant) (event.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return event.Position{XID: 1, Seq: int64(len(m.all))}, nil
}

func eventOf(tenant ids.Tenant) event.Event {
	return event.Event{
		ID: ids.New[ids.Event](), Type: "provisioning.active", Version: event.Version, Stream: event.StreamProvisioning, Tenant: tenant,
		OccurredAt: time.Unix(1_800_000_000, 0).UTC(), CorrelationID: "01990f41-3333-7444-8555-666677778888",
		Payload: json.RawMessage(`{"urn":"core42:aicloud:eu-1:t:p:allocation:a1"}`),
	}
}

// crowd has clients of one server, each with a connection.
type crowd struct {
	server   *http.Server
	conns    []net.Conn
	received atomic.Int64 // braces
}

// newCrowd opens n connections. The path names the tenant of each.
func newCrowd(ctx context.Context, n int, handler http.Handler) (*crowd, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	c := &crowd{server: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	go func() { _ = c.server.Serve(listener) }()
	var greeted sync.WaitGroup
	for k := range n {
		conn, err := c.dial(ctx, listener.Addr().String(), k)
		if err != nil {
			c.close()
			return nil, err
		}
		greeted.Add(1)
		go c.read(conn, greeted.Done)
	}
	greeted.Wait()
	return c, nil
}

// dial sends a request on a connection.
func (c *crowd) dial(ctx context.Context, address string, k int) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.conns = append(c.conns, conn)
	if _, err := fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: bench\r\n\r\n", k%tenants); err != nil {
		return nil, fmt.Errorf("requesting: %w", err)
	}
	return conn, nil
}

func (c *crowd) read(conn net.Conn, greeted func()) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buffer)
		if greeted != nil {
			greeted()
			greeted = nil
		}
		if err != nil {
			return
		}
		c.received.Add(int64(bytes.Count(buffer[:n], []byte("{"))))
	}
}

// wait returns when the clients have received so many events since the last call.
func (c *crowd) wait(events int) error {
	for began := time.Now(); c.received.Load() < int64(events*braces); time.Sleep(50 * time.Microsecond) {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("clients received %d of %d events", c.received.Load()/braces, events)
		}
	}
	c.received.Store(0)
	return nil
}

func (c *crowd) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	_ = c.server.Close()
}
