package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"sync"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Bounds of the window. A client behind it reads pages from PostgreSQL.
const (
	windowEvents = 8192
	windowBytes  = 16 << 20
)

// item is an event that is encoded once for all clients.
type item struct {
	event.Position
	tenant  ids.Tenant
	project ids.Project
	stream  string
	subject string
	frame   []byte // a server-sent event
	data    []byte // the envelope, which is a part of frame
}

// otherFields is above the size of all of an event in a frame but its payload, so that few frames grow while they are
// written.
const otherFields = 512

func encode(e *event.Event) (*item, error) {
	b := bytes.NewBuffer(make([]byte, 0, otherFields+len(e.Payload)))
	for _, part := range [...]string{"id: ", e.ID.String(), "\nevent: ", e.Type, "\ndata: "} {
		b.WriteString(part)
	}
	head := b.Len()
	// The encoder ends with a line break and writes no other one. A second one ends the frame.
	if err := json.NewEncoder(b).Encode(e); err != nil {
		return nil, fmt.Errorf("encoding event %s: %w", e.ID, err)
	}
	end := b.Len() - len("\n")
	b.WriteByte('\n')
	frame := b.Bytes()
	return &item{
		Position: e.Position, tenant: e.Tenant, project: e.Project, stream: e.Stream, subject: e.Type,
		frame: frame, data: frame[head:end:end],
	}, nil
}

// line has the items of one tenant, or of all tenants under the zero tenant, in sequence.
type line struct {
	items []*item
	// dropped is the position of the last event that the line has no more. Clients before it are behind.
	dropped event.Position
	changed chan struct{} // closed with the next item
	readers int
}

// window has the recent events. A client reads the line of its tenant, so an event costs other tenants nothing.
type window struct {
	events, bytes int // the bounds

	mu      sync.RWMutex
	begun   bool
	head    event.Position // everything up to here has been read
	dropped event.Position
	size    int
	lines   map[ids.Tenant]*line
}

func newWindow(events, bytes int) *window {
	w := &window{events: events, bytes: bytes, lines: map[ids.Tenant]*line{}}
	w.lines[ids.Tenant{}] = w.newLine()
	return w
}

// newLine returns the line of a tenant that has no item in the window.
func (w *window) newLine() *line { return &line{dropped: w.dropped, changed: make(chan struct{})} }

func (w *window) lineOf(tenant ids.Tenant) *line {
	l := w.lines[tenant]
	if l == nil {
		l = w.newLine()
		w.lines[tenant] = l
	}
	return l
}

// begin sets the position after which the window has all events.
func (w *window) begin(at event.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.head, w.dropped = true, at, at
	for _, l := range w.lines {
		l.dropped = at
		l.wake()
	}
}

func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// add appends the next events and notifies the clients of their tenants.
func (w *window) add(items []*item) {
	if len(items) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.lines[ids.Tenant{}]
	woken := map[*line]bool{all: true}
	for _, i := range items {
		all.items = append(all.items, i)
		w.size += len(i.frame)
		if i.tenant != (ids.Tenant{}) {
			l := w.lineOf(i.tenant)
			l.items = append(l.items, i)
			woken[l] = true
		}
	}
	w.head = items[len(items)-1].Position
	for len(all.items) > w.events || w.size > w.bytes && len(all.items) > 1 {
		w.drop(all)
	}
	for l := range woken {
		l.wake()
	}
}

// drop removes the oldest item. It is also the oldest one of its tenant.
func (w *window) drop(all *line) {
	i := all.drop()
	w.dropped = i.Position
	w.size -= len(i.frame)
	if i.tenant == (ids.Tenant{}) {
		return
	}
	l := w.lines[i.tenant]
	l.drop()
	w.remove(i.tenant, l)
}

func (l *line) drop() *item {
	i := l.items[0]
	l.items[0] = nil
	l.items = l.items[1:]
	l.dropped = i.Position
	return i
}

// remove deletes the line of a tenant without items and clients.
func (w *window) remove(tenant ids.Tenant, l *line) {
	if l.readers == 0 && len(l.items) == 0 && tenant != (ids.Tenant{}) {
		delete(w.lines, tenant)
	}
}

func (w *window) join(tenant ids.Tenant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lineOf(tenant).readers++
}

func (w *window) leave(tenant ids.Tenant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[tenant]
	l.readers--
	w.remove(tenant, l)
}

// view has the items of the window for one client.
type view struct {
	items []*item
	// behind means that the window does not have all events after the position of the client.
	behind bool
	begun  bool
	// head is the position up to which the window had all events.
	head    event.Position
	changed <-chan struct{}
}

// after returns up to batch items after a position. into is the slice of the last call.
func (w *window) after(tenant ids.Tenant, from event.Position, into []*item) view {
	w.mu.RLock()
	defer w.mu.RUnlock()
	l := w.lines[tenant]
	v := view{items: into[:0], begun: w.begun, head: w.head, changed: l.changed}
	if v.behind = !w.begun || before(from, l.dropped); v.behind {
		return v
	}
	first := sort.Search(len(l.items), func(n int) bool { return before(from, l.items[n].Position) })
	next := l.items[first:]
	if len(next) > batch {
		next, v.head = next[:batch], next[batch-1].Position
	}
	v.items = append(v.items, next...)
	return v
}

func before(a, b event.Position) bool { return a.XID < b.XID || a.XID == b.XID && a.Seq < b.Seq }

func later(a, b event.Position) event.Position {
	if before(a, b) {
		return b
	}
	return a
}
