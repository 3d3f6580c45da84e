package stream_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/handshake"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/event"
)

// counter counts the statements of a source.
type counter struct {
	stream.EventSource
	afters, all atomic.Int64
}

func (c *counter) After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	c.afters.Add(1)
	c.all.Add(1)
	return c.EventSource.After(ctx, tenant, from, limit)
}

func (c *counter) Latest(ctx context.Context, tenant ids.Tenant) (event.Position, error) {
	c.all.Add(1)
	return c.EventSource.Latest(ctx, tenant)
}

// sink is the response of a client in memory. It sends each complete item to lines.
type sink struct {
	header http.Header
	rest   string
	lines  chan string
}

func newSink() *sink { return &sink{http.Header{}, "", make(chan string, 4096)} }

func (s *sink) Header() http.Header            { return s.header }
func (*sink) WriteHeader(int)                  {}
func (*sink) Flush()                           {}
func (*sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Write(b []byte) (int, error) {
	parts := strings.Split(s.rest+string(b), "\n\n")
	s.rest = parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		if id, found := strings.CutPrefix(part, "id: "); found {
			part, _, _ = strings.Cut(id, "\n")
		}
		s.lines <- part
	}
	return len(b), nil
}

// open starts a stream that ends with the test, and returns its items after the first one.
func open(t *testing.T, s *stream.Server, r stream.Request) <-chan string {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	r.Caller = uuid.New()
	f, err := s.Open(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	out, ended := newSink(), make(chan struct{})
	go func() { defer close(ended); _ = f.SendSSE(out) }()
	t.Cleanup(func() { end(); <-ended })
	if got := receive(t, out.lines); got != "retry: 2000" {
		t.Fatalf("begins with %q", got)
	}
	return out.lines
}

func receive(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was sent")
		return ""
	}
}

// A client that resumes before, in and after the window receives each event once, in sequence.
func TestINV27ResumeAtEveryPosition(t *testing.T) {
	t.Parallel()
	r, mine, other := &record{}, ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	s := &stream.Server{Events: r, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: time.Hour, WindowEvents: 100}
	var sent []string
	write := func(n int) {
		for range n {
			r.state(other, "provisioning.active")
			sent = append(sent, r.state(mine, "provisioning.active").String())
		}
		s.Hints.Send(event.Topic)
	}
	write(500)
	first := open(t, s, stream.Request{Audience: stream.Audience{Tenant: mine, Whole: true}}) // the window begins
	write(300)
	for _, id := range sent[500:] {
		if got := receive(t, first); got != id {
			t.Fatalf("the first client got %s, want %s", got, id)
		}
	}
	clients := map[int]<-chan string{}
	for _, at := range []int{0, 1, 199, 499, 500, 740, 749, 750, 751, 798, 799} {
		clients[at] = open(t, s, stream.Request{Audience: stream.Audience{Tenant: mine, Whole: true}, After: sent[at]})
	}
	write(250)
	for at, lines := range clients {
		for n, id := range sent[at+1:] {
			if got := receive(t, lines); got != id {
				t.Fatalf("after %d: item %d is %s, want %s", at, n, got, id)
			}
		}
	}
}

// No reader reads without a client, and 2,000 clients cost as many statements for an event as one.
func TestStatementsOfManyClients(t *testing.T) {
	t.Parallel()
	const clients, events = 2000, 20
	r, mine := &record{}, ids.New[ids.Tenant]()
	count := &counter{EventSource: r}
	s := &stream.Server{Events: count, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: time.Hour}
	s.Hints.Send(event.Topic)
	if n := count.all.Load(); n != 0 {
		t.Fatalf("%d statements without a client", n)
	}
	var all []<-chan string
	for range clients {
		all = append(all, open(t, s, stream.Request{Audience: stream.Audience{Tenant: mine, Whole: true}}))
	}
	next := func() {
		id := r.state(mine, "provisioning.active").String()
		s.Hints.Send(event.Topic)
		for _, lines := range all {
			if got := receive(t, lines); got != id {
				t.Fatalf("got %s, want %s", got, id)
			}
		}
	}
	next() // all clients have reached the window
	before := count.afters.Load()
	for range events {
		next()
	}
	if n := count.afters.Load() - before; n > 2*events {
		t.Errorf("%d statements for %d events", n, events)
	}
}

// Fifty writers with slow and fast transactions: clients of a small window, which fall behind it, receive each event once.
func TestINV27WindowSkipsNoLateCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	const writers, each = 50, 10
	tenants := []ids.Tenant{ids.New[ids.Tenant](), ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
	s := &stream.Server{Events: &event.Store{DB: db}, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: 5 * time.Millisecond, WindowEvents: 20}
	ctx := pg.WithScope(t.Context(), pg.Platform)
	var lines []<-chan string
	for _, tenant := range append(tenants, ids.Tenant{}) {
		f, err := s.Open(ctx, stream.Request{Audience: stream.Audience{Tenant: tenant, Whole: true}, After: "0"})
		if err != nil {
			t.Fatal(err)
		}
		out := newSink()
		go func() { _ = f.SendSSE(out) }()
		lines = append(lines, out.lines)
	}
	var mu sync.Mutex
	stated := map[ids.Tenant][]string{}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 6)
	for w := range writers {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			for n := range each {
				d := event.Draft{
					ID: ids.New[ids.Event](), Stream: event.StreamProvisioning, Subject: "provisioning.active", Aggregate: fmt.Sprint(w), Sequence: int64(n),
					Tenant: tenants[w%3], Payload: map[string]string{},
				}
				if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
					b := &pgx.Batch{}
					event.Queue(b, d)
					if w%2 == 0 { // stays open while others commit
						b.Queue("SELECT pg_sleep($1)", rand.Float64()/500)
					}
					return tx.SendBatch(t.Context(), b).Close()
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				stated[d.Tenant] = append(stated[d.Tenant], d.ID.String())
				stated[ids.Tenant{}] = append(stated[ids.Tenant{}], d.ID.String())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n, tenant := range append(tenants, ids.Tenant{}) {
		var got []string
		for len(got) < len(stated[tenant]) {
			if line := receive(t, lines[n]); line != "retry: 2000" {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		slices.Sort(stated[tenant])
		if !slices.Equal(got, stated[tenant]) {
			t.Errorf("client %d received other events than were written", n)
		}
	}
}

// Clients of random tenants receive exactly the events of their tenant and their subjects, over both transports.
func TestTenantsAreSeparated(t *testing.T) {
	t.Parallel()
	r := &record{}
	s := &stream.Server{Events: r, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: time.Hour, WindowEvents: 50}
	subjects := []string{"provisioning.active", "billing.balance_adjusted", "fleet.node_draining"}
	tenants := make([]ids.Tenant, 5)
	for n := range tenants {
		tenants[n] = ids.New[ids.Tenant]()
	}
	type reader struct {
		to   stream.Audience
		next func() string
		want []string
	}
	var readers []*reader
	for _, tenant := range tenants {
		for _, types := range []map[string]bool{nil, {subjects[rand.IntN(3)]: true}} {
			to := stream.Audience{Tenant: tenant, Whole: true, Types: types}
			lines := open(t, s, stream.Request{Audience: to})
			socket := dial(t, s, stream.Request{Audience: to})
			readers = append(readers, &reader{to: to, next: func() string { return receive(t, lines) }}, &reader{to: to, next: func() string { return socket(t) }})
		}
	}
	for range 300 {
		tenant, subject := tenants[rand.IntN(5)], subjects[rand.IntN(3)]
		id := r.state(tenant, subject).String()
		for _, one := range readers {
			if one.to.Tenant == tenant && (one.to.Types == nil || one.to.Types[subject]) {
				one.want = append(one.want, id)
			}
		}
		if rand.IntN(4) == 0 {
			s.Hints.Send(event.Topic)
		}
	}
	s.Hints.Send(event.Topic)
	for n, one := range readers {
		for _, id := range one.want {
			if got := one.next(); got != id && !strings.Contains(got, id) {
				t.Fatalf("client %d: got %.200s, want %s", n, got, id)
			}
		}
	}
}

// dial opens a websocket and returns how to read its next message.
func dial(t *testing.T, s *stream.Server, r stream.Request) func(*testing.T) string {
	t.Helper()
	conn := connect(t, s, r)
	return func(t *testing.T) string {
		t.Helper()
		_, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

func connect(t *testing.T, s *stream.Server, r stream.Request) *websocket.Conn {
	t.Helper()
	opened := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := handshake.Check(req, stream.Subprotocol, ""); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f, err := s.Open(req.Context(), r)
		if err != nil {
			t.Error(err)
			return
		}
		close(opened)
		_ = f.SendWebSocket(w, req)
	}))
	t.Cleanup(server.CloseClientConnections)
	conn, resp, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{Subprotocols: []string{stream.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	<-opened
	t.Cleanup(func() { _ = conn.CloseNow() })
	if conn.Subprotocol() != stream.Subprotocol {
		t.Errorf("selected %q", conn.Subprotocol())
	}
	return conn
}

// The server rejects messages of a client.
func TestMessagesOfClientsAreRejected(t *testing.T) {
	t.Parallel()
	s := &stream.Server{Events: &record{}, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: time.Hour}
	for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
		conn := connect(t, s, stream.Request{Audience: stream.Audience{Whole: true}})
		if err := conn.Write(t.Context(), kind, []byte(strings.Repeat("x", 1<<20))); err != nil {
			t.Logf("writing: %v", err)
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation && err == nil {
			t.Errorf("the connection ended with %v", err)
		}
	}
}

// Old notifications that enter a full list, because others were read, are not new.
func TestOldNotificationsAreNotNew(t *testing.T) {
	t.Parallel()
	s := &stream.Server{Events: &record{}, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Clock: clock.Clock{}, Interval: time.Hour, NotificationInterval: time.Hour}
	var all []stream.Notification // the newest first
	for n := range byte(stream.MostUnread + 50) {
		all = append(all, stream.Notification{ID: uuid.UUID{255 - n}, Data: []byte{'0' + n}})
	}
	lists := make(chan []stream.Notification)
	n := &stream.Notifications{Topic: "notify.u", Unread: func(context.Context) ([]stream.Notification, error) { return <-lists, nil }}
	lines := open(t, s, stream.Request{Audience: stream.Audience{Whole: true}, Notifications: n})
	lists <- all[10 : 10+stream.MostUnread]
	if got := receive(t, lines); got != "event: unread\ndata: {\"unread\":100}" {
		t.Fatal(got)
	}
	s.Hints.Send(n.Topic)
	lists <- all[50:] // 40 were read
	s.Hints.Send(n.Topic)
	lists <- append(all[:1:1], all[50:149]...) // a new one
	if got := receive(t, lines); got != "event: notification\ndata: 0" {
		t.Errorf("%q", got)
	}
}

// A client gets the number of unread notifications first, and then each new notification once.
func TestNotificationsInTheStream(t *testing.T) {
	t.Parallel()
	s := &stream.Server{Events: &record{}, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Clock: clock.Clock{}, Interval: time.Hour, NotificationInterval: time.Hour}
	var mu sync.Mutex
	var unread []stream.Notification
	reads := 0
	n := &stream.Notifications{Topic: "notify.u", Unread: func(context.Context) ([]stream.Notification, error) {
		mu.Lock()
		defer mu.Unlock()
		reads++
		return slices.Clone(unread), nil
	}}
	set := func(all ...stream.Notification) {
		mu.Lock()
		unread = all
		mu.Unlock()
		s.Hints.Send(n.Topic)
	}
	old := stream.Notification{ID: uuid.New(), Data: []byte(`{"title":"old"}`)}
	fresh := stream.Notification{ID: uuid.New(), Data: []byte(`{"title":"fresh"}`)}
	raised := stream.Notification{ID: old.ID, UpdatedAt: time.Unix(1, 0), Data: []byte(`{"title":"raised"}`)}
	set(old)
	var all []<-chan string
	for range 10 {
		all = append(all, open(t, s, stream.Request{Audience: stream.Audience{Whole: true}, Notifications: n}))
	}
	expect := func(want ...string) {
		t.Helper()
		for _, lines := range all {
			for _, one := range want {
				if got := receive(t, lines); got != one {
					t.Fatalf("got %q, want %q", got, one)
				}
			}
		}
	}
	expect("event: unread\ndata: {\"unread\":1}")
	set(fresh, old)
	expect("event: notification\ndata: {\"title\":\"fresh\"}", "event: unread\ndata: {\"unread\":2}")
	set(fresh, raised)
	expect("event: notification\ndata: {\"title\":\"raised\"}")
	set()
	expect("event: unread\ndata: {\"unread\":0}")
	mu.Lock()
	defer mu.Unlock()
	if reads > 5 {
		t.Errorf("%d queries for 10 clients and 4 hints", reads)
	}
}

// A reader that cannot read ends all streams, and the next client starts another one.
func TestAFailedReaderEndsTheStreams(t *testing.T) {
	t.Parallel()
	source := &failing{record: &record{}}
	s := &stream.Server{Events: source, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Interval: time.Hour}
	f, err := s.Open(t.Context(), stream.Request{Audience: stream.Audience{Whole: true}})
	if err != nil {
		t.Fatal(err)
	}
	out, ended := newSink(), make(chan struct{})
	go func() { defer close(ended); _ = f.SendSSE(out) }()
	receive(t, out.lines)
	source.fails.Store(true)
	for open := true; open; {
		s.Hints.Send(event.Topic)
		select {
		case <-ended:
			open = false
		case <-time.After(time.Millisecond):
		}
	}
	source.fails.Store(false)
	lines := open(t, s, stream.Request{Audience: stream.Audience{Whole: true}})
	id := source.state(ids.New[ids.Tenant](), "provisioning.active").String()
	s.Hints.Send(event.Topic)
	if got := receive(t, lines); got != id {
		t.Errorf("got %s, want %s", got, id)
	}
}

type failing struct {
	*record
	fails atomic.Bool
}

func (f *failing) After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	if f.fails.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	return f.record.After(ctx, tenant, from, limit)
}
