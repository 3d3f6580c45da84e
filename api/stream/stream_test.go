package stream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// record is an outbox in memory.
type record struct {
	mu  sync.Mutex
	all []event.Event
}

func (r *record) state(tenant ids.Tenant, what string, project ...ids.Project) ids.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := event.Event{
		Position: event.Position{XID: 7, Seq: int64(len(r.all) + 1)}, ID: ids.New[ids.Event](), Type: what, Version: event.Version,
		Payload: json.RawMessage(`{"text":"` + strings.Repeat("x", 1024) + `"}`), Tenant: tenant, Stream: strings.ToUpper(strings.Split(what, ".")[0]),
	}
	for _, p := range project {
		e.Project = p
	}
	r.all = append(r.all, e)
	return e.ID
}

func (r *record) After(_ context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []event.Event
	for _, e := range r.all {
		mine := tenant == (ids.Tenant{}) || tenant == e.Tenant
		if mine && e.Seq > from.Seq && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (r *record) Find(_ context.Context, tenant ids.Tenant, id ids.Event) (event.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.ID == id && (tenant == (ids.Tenant{}) || tenant == e.Tenant) {
			return e.Position, nil
		}
	}
	return event.Position{}, errs.New(errs.NotFound, "no such event")
}

func (r *record) Latest(context.Context, ids.Tenant) (event.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return event.Position{XID: 7, Seq: int64(len(r.all))}, nil
}

type bundle struct {
	record *record
	hints  *hint.Bus
	url    string
	mine   ids.Tenant
	// to, where set, is all that the client may see.
	to    *stream.Audience
	ended chan struct{} // receives when a stream has let its client go
}

func setup(t *testing.T, change ...func(*stream.Server)) *bundle {
	t.Helper()
	b := &bundle{record: &record{}, hints: &hint.Bus{}, mine: ids.New[ids.Tenant](), ended: make(chan struct{}, 10)}
	// Neither the interval nor the heartbeat passes: hints must do.
	s := &stream.Server{Events: b.record, Hints: b.hints, Log: slog.New(slog.DiscardHandler), Heartbeat: time.Hour, Interval: time.Hour}
	for _, c := range change {
		c(s)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := stream.Audience{Tenant: b.mine, Whole: true}
		if r.URL.Query().Has("all") {
			to.Tenant = ids.Tenant{}
		}
		if b.to != nil {
			to = *b.to
		}
		follow, err := s.Open(r.Context(), stream.Request{Audience: to, After: r.URL.Query().Get("after")})
		if err != nil {
			http.Error(w, string(errs.CodeOf(err)), http.StatusTeapot)
			return
		}
		if err := follow.SendSSE(w); err != nil {
			t.Error(err)
		}
		b.ended <- struct{}{}
	}))
	// Far shorter than any stream: neither may end one.
	server.Config.ReadTimeout, server.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// open opens a stream and returns its lines.
func (b *bundle) open(t *testing.T, query string) (*http.Response, *bufio.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res, bufio.NewReader(res.Body)
}

// The number of clients is a metric.
func TestClientsAreCounted(t *testing.T) {
	t.Parallel()
	var s *stream.Server
	b := setup(t, func(made *stream.Server) { s = made })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	count := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
			t.Fatalf("%v, %v", families, err)
		}
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	res, lines := b.open(t, "")
	next(t, lines)
	if n := count(); n != 1 {
		t.Errorf("%v clients", n)
	}
	_ = res.Body.Close()
	<-b.ended
	if n := count(); n != 0 {
		t.Errorf("%v clients after the end", n)
	}
}

// next reads up to the end of one event and returns its id, or the whole when it
// has none.
func next(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var text strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", text.String(), err)
		}
		if line == "\n" {
			break
		}
		text.WriteString(line)
	}
	for line := range strings.Lines(text.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return strings.TrimSpace(id)
		}
	}
	return text.String()
}

func TestEventsArriveAsTheyHappen(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.record.state(b.mine, "provisioning.requested") // before the stream: not sent
	res, r := b.open(t, "")
	if res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", res.Header)
	}
	if got := next(t, r); got != "retry: 2000\n" {
		t.Errorf("begins with %q", got)
	}
	for range 3 {
		b.record.state(ids.New[ids.Tenant](), "somebody.else")
		id := b.record.state(b.mine, "provisioning.active")
		b.hints.Send(event.Topic)
		if got := next(t, r); got != id.String() {
			t.Errorf("got %s, want %s", got, id)
		}
	}
}

// A client needs only the id of the last event.
func TestStreamsGoOnWhereTheyWereLost(t *testing.T) {
	t.Parallel()

	b := setup(t)
	var sent []string
	for range 500 { // more than one batch
		sent = append(sent, b.record.state(b.mine, "provisioning.active").String())
	}
	for after, want := range map[string][]string{"0": sent, sent[99]: sent[100:], sent[499]: nil} {
		_, r := b.open(t, "after="+after)
		next(t, r) // retry
		for i, id := range want {
			if got := next(t, r); got != id {
				t.Fatalf("after %s: event %d is %s, want %s", after, i, got, id)
			}
		}
	}
}

// A client receives the events of its projects, and those of the tenant's money where it may read it.
func TestProjectsHaveABorder(t *testing.T) {
	t.Parallel()

	first, second, other := ids.New[ids.Project](), ids.New[ids.Project](), ids.New[ids.Project]()
	for name, c := range map[string]struct {
		to   stream.Audience
		want []int
	}{
		"one project":       {stream.Audience{Projects: map[ids.Project]bool{first: true}}, []int{0}},
		"two projects":      {stream.Audience{Projects: map[ids.Project]bool{first: true, second: true}}, []int{0, 1}},
		"money":             {stream.Audience{Money: true}, []int{3, 4}},
		"money and project": {stream.Audience{Projects: map[ids.Project]bool{second: true}, Money: true}, []int{1, 3, 4}},
		"the tenant":        {stream.Audience{Whole: true}, []int{0, 1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			c.to.Tenant = b.mine
			b.to = &c.to
			var all []string
			for range 2 { // what a client must not receive would be between
				b.record.state(ids.New[ids.Tenant](), "billing.balance_adjusted")
				b.record.state(ids.New[ids.Tenant](), "provisioning.active", first)
				all = append(all,
					b.record.state(b.mine, "provisioning.active", first).String(),
					b.record.state(b.mine, "provisioning.active", second).String(),
					b.record.state(b.mine, "billing.of_a_project", other).String(),
					b.record.state(b.mine, "billing.balance_adjusted").String(),
					b.record.state(b.mine, "payments.refunded").String(),
					b.record.state(b.mine, "fleet.object_changed").String())
			}
			_, r := b.open(t, "after=0")
			next(t, r) // retry
			for round := range 2 {
				for _, at := range c.want {
					if got := next(t, r); got != all[6*round+at] {
						t.Fatalf("round %d: got %s, want event %d", round, got, at)
					}
				}
			}
		})
	}
}

func TestUnknownPositionsAreRejectedBeforeTheStream(t *testing.T) {
	t.Parallel()

	b := setup(t)
	foreign := b.record.state(ids.New[ids.Tenant](), "theirs").String()
	for after, code := range map[string]errs.Code{
		"yesterday":                   errs.ValidationError,
		ids.New[ids.Event]().String(): errs.NotFound,
		foreign:                       errs.NotFound,
	} {
		res, r := b.open(t, "after="+after)
		if text, _ := io.ReadAll(r); res.StatusCode != http.StatusTeapot || strings.TrimSpace(string(text)) != string(code) {
			t.Errorf("%s: %d %s, want %s", after, res.StatusCode, text, code)
		}
	}
	if _, r := b.open(t, "all&after="+foreign); next(t, r) != "retry: 2000\n" {
		t.Error("operators cannot follow on from anyone's event")
	}
}

// Hints may be lost; proxies cut what is silent; and the server's own timeouts
// are for answers that end.
func TestStreamsLiveWithoutHints(t *testing.T) {
	t.Parallel()

	b := setup(t, func(s *stream.Server) { s.Interval, s.Heartbeat = 20*time.Millisecond, 150*time.Millisecond })
	_, r := b.open(t, "")
	next(t, r)
	for range 3 { // longer than both timeouts of the server
		if got := next(t, r); got != ": still here\n" {
			t.Fatalf("got %q", got)
		}
	}
	id := b.record.state(b.mine, "provisioning.active").String()
	for got := ""; got != id; {
		got = next(t, r)
	}
}

func TestClientsThatLeaveAreLetGo(t *testing.T) {
	t.Parallel()

	b := setup(t)
	res, r := b.open(t, "")
	next(t, r)
	_ = res.Body.Close()
	<-b.ended
}

// A client that receives nothing occupies a goroutine, so not for long.
func TestSlowClientsAreLetGo(t *testing.T) {
	t.Parallel()

	b := setup(t, func(s *stream.Server) { s.Patience = 100 * time.Millisecond })
	for range 20_000 { // 20 MB: more than the buffers of the sockets
		b.record.state(b.mine, "provisioning.active")
	}
	// Only now: the server closes a connection without a request.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-b.ended // without a byte read
}

// One caller has 32 streams, and another one is not limited by them.
func TestStreamsOfACallerAreLimited(t *testing.T) {
	t.Parallel()
	s := &stream.Server{Events: &record{}, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler), Clock: clock.Clock{}, Interval: time.Hour}
	ctx, end := context.WithCancel(t.Context())
	r := stream.Request{Caller: uuid.New(), Audience: stream.Audience{Whole: true}}
	for range 32 {
		if _, err := s.Open(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Open(ctx, r); errs.CodeOf(err) != errs.ConcurrencyLimitReached {
		t.Errorf("the 33rd: %v", err)
	}
	if _, err := s.Open(ctx, stream.Request{Caller: uuid.New()}); err != nil {
		t.Errorf("another caller: %v", err)
	}
	end()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		_, err := s.Open(t.Context(), r)
		if err == nil {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("after the end of the others: %v", err)
		}
	}
}
