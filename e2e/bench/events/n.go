package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	crowdSize = 2000
	burst     = 10 // events of each tenant in a round
	rounds    = 20
)

// fan sends rounds of events to a crowd. A round is over when all clients have received it.
type fan struct {
	crowd   *crowd
	tenants []ids.Tenant
	send    func([]event.Event)
}

func (f *fan) run(rounds int) lab.Side {
	return func(context.Context) (time.Duration, error) {
		for range rounds {
			f.send(eventsOf(f.tenants))
			if err := f.crowd.wait(len(f.crowd.conns) * burst); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
}

// eventsOf returns the events of one round.
func eventsOf(all []ids.Tenant) []event.Event {
	events := make([]event.Event, 0, burst*len(all))
	for _, t := range all {
		for range burst {
			events = append(events, eventOf(t))
		}
	}
	return events
}

func newTenants() []ids.Tenant {
	all := make([]ids.Tenant, tenants)
	for n := range all {
		all[n] = ids.New[ids.Tenant]()
	}
	return all
}

func tenantAt(r *http.Request) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	return n
}

// newOurs has the clients of a stream.Server.
func newOurs(ctx context.Context, l *lab.Lab, clients int) (*fan, error) {
	source, hints := &memory{}, &hint.Bus{}
	f := &fan{tenants: newTenants(), send: func(events []event.Event) { source.add(events...); hints.Send(event.Topic) }}
	s := &stream.Server{Events: source, Hints: hints, Log: l.Logger, Interval: time.Hour}
	var err error
	f.crowd, err = newCrowd(ctx, clients, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened, err := s.Open(r.Context(), stream.Request{Caller: uuid.New(), Audience: stream.Audience{Tenant: f.tenants[tenantAt(r)], Whole: true}})
		if err == nil {
			_ = opened.SendSSE(w)
		}
	}))
	return f, err
}

// newBare has the clients of a bare loop: a goroutine and a channel for each client, no position and no check. Each client
// writes what waits for it at once, as ours does.
func newBare(ctx context.Context, clients int) (*fan, error) {
	var mu sync.Mutex
	channels := make([][]chan []byte, tenants)
	f := &fan{tenants: newTenants()}
	at := map[ids.Tenant]int{}
	for n, t := range f.tenants {
		at[t] = n
	}
	f.send = func(events []event.Event) {
		for _, e := range events {
			frame := frameOf(e)
			for _, c := range channels[at[e.Tenant]] {
				c <- frame
			}
		}
	}
	var err error
	f.crowd, err = newCrowd(ctx, clients, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := make(chan []byte, 4*burst)
		mu.Lock()
		channels[tenantAt(r)] = append(channels[tenantAt(r)], c)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		bareLoop(w, r, c)
	}))
	return f, err
}

func bareLoop(w http.ResponseWriter, r *http.Request, c <-chan []byte) {
	ctl := http.NewResponseController(w)
	buffer := []byte("retry: 2000\n\n")
	for {
		if _, err := w.Write(buffer); err != nil || ctl.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case frame := <-c:
			buffer = append(buffer[:0], frame...)
		}
		for more := true; more; {
			select {
			case frame := <-c:
				buffer = append(buffer, frame...)
			default:
				more = false
			}
		}
	}
}

// frameOf encodes an event as ours does.
func frameOf(e event.Event) []byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // the events of the bench can be encoded
	}
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data)
}

// FanOut compares the streams of authorised clients with a bare loop.
func FanOut(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	clients := l.Scaled(crowdSize, tenants) / tenants * tenants
	ours, err := newOurs(ctx, l, clients)
	if err != nil {
		return nil, err
	}
	defer ours.crowd.close()
	bare, err := newBare(ctx, clients)
	if err != nil {
		return nil, err
	}
	defer bare.crowd.close()
	n := clients * burst * rounds
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, ours.run(rounds), bare.run(rounds))
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, n, "N1", fmt.Sprintf("deliveries to %d authorised clients of %d tenants / bare SSE loop", clients, tenants)).AtLeast(0.8)
	r.Note = fmt.Sprintf("events in memory on both sides, %d of each tenant at a time; clients share the process", burst)
	allocs, err := allocations(ctx, ours, n)
	return []lab.Row{r, allocs}, err
}

// allocations counts those of n deliveries. The bench makes the events and stores them in memory; these allocations are
// counted in a loop without a server and subtracted.
func allocations(ctx context.Context, ours *fan, n int) (lab.Row, error) {
	all, err := mallocs(func() error { _, err := ours.run(rounds)(ctx); return err })
	if err != nil {
		return lab.Row{}, err
	}
	source := &memory{}
	bench, err := mallocs(func() error {
		for range rounds {
			source.add(eventsOf(ours.tenants)...)
		}
		return nil
	})
	each := (all - bench) / float64(n)
	r := lab.Row{ID: "N1-allocs", Path: "allocations for each delivery of N1", Ours: each, Ratio: each, Min: each, Max: each}.AtMost(0.1)
	r.Note = fmt.Sprintf("without %.3f of the bench itself", bench/float64(n))
	return r, err
}

// mallocs returns the number of allocations of the process while do runs.
func mallocs(do func() error) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := do()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), err
}

func nothing(context.Context) error { return nil }

// Crowds compares a crowd with one of a tenth, and a crowd with and without a stalled client.
func Crowds(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	few := l.Scaled(crowdSize, 10*tenants) / 10 / tenants * tenants
	many, err := newOurs(ctx, l, 10*few)
	if err != nil {
		return nil, err
	}
	defer many.crowd.close()
	tenth, err := newOurs(ctx, l, few)
	if err != nil {
		return nil, err
	}
	defer tenth.crowd.close()
	n := 10 * few * burst * rounds
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, many.run(rounds), tenth.run(10*rounds))
	if err != nil {
		return nil, err
	}
	r := p.Row("N2", fmt.Sprintf("CPU of a delivery with %d clients / with %d", 10*few, few), n)
	r.Unit, r.Ours, r.Peer = " µs", r.CPUOurs*1e6, r.CPUPeer*1e6
	r.Ratio = r.Ours / max(r.Peer, 1e-9)
	r.Min, r.Max = r.Ratio, r.Ratio
	slow, err := stalled(ctx, l, many, 10*few)
	return []lab.Row{r.AtMost(1.2), slow}, err
}

// stalled compares the crowd with one in which each tenant has a further client that reads nothing.
func stalled(ctx context.Context, l *lab.Lab, without *fan, clients int) (lab.Row, error) {
	with, err := newOurs(ctx, l, clients)
	if err != nil {
		return lab.Row{}, err
	}
	defer with.crowd.close()
	reading := len(with.crowd.conns)
	for k := range tenants {
		if _, err := with.crowd.dial(ctx, with.crowd.conns[0].RemoteAddr().String(), k); err != nil {
			return lab.Row{}, err
		}
	}
	defer func(all []interface{ Close() error }) {
		for _, c := range all {
			_ = c.Close()
		}
	}(closers(with, reading))
	with.crowd.conns = with.crowd.conns[:reading]
	p, err := l.Alternate(ctx, 2*lab.LeastPairs, nothing, with.run(rounds), without.run(rounds))
	if err != nil {
		return lab.Row{}, err
	}
	r := p.Row("N2-slow", fmt.Sprintf("deliveries with %d stalled clients / without", tenants), clients*burst*rounds).AtMost(1.05)
	return r, nil
}

func closers(f *fan, from int) (all []interface{ Close() error }) {
	for _, c := range f.crowd.conns[from:] {
		all = append(all, c)
	}
	return all
}

const (
	storedEvents = 1_000_000
	missed       = 1000
)

// Resume compares the resumption after 1,000 missed events in an outbox of a million with one of ten thousand, and counts
// the statements of an event with 2,000 clients.
func Resume(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	large, err := newOutbox(ctx, l, "n3_large", l.Scaled(storedEvents, 2*missed))
	if err != nil {
		return nil, err
	}
	defer large.close()
	small, err := newOutbox(ctx, l, "n3_small", 10*missed)
	if err != nil {
		return nil, err
	}
	defer small.close()
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, large.resume, small.resume)
	if err != nil {
		return nil, err
	}
	r := p.Row("N3", fmt.Sprintf("resume after %d missed events of %d stored / of %d", missed, l.Scaled(storedEvents, 2*missed), 10*missed), missed).AtMost(1.2)
	sql, err := large.statements(ctx, l)
	return []lab.Row{r, sql}, err
}

// outbox is a stream.Server over a database.
type outbox struct {
	*event.Store

	server  *stream.Server
	hints   *hint.Bus
	tenant  ids.Tenant
	since   string
	queries atomic.Int64
	close   func()
}

// After counts the statements.
func (o *outbox) After(ctx context.Context, tenant ids.Tenant, from event.Position, limit int) ([]event.Event, error) {
	o.queries.Add(1)
	return o.Store.After(ctx, tenant, from, limit)
}

const insertEvents = `INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, payload)
	SELECT gen_random_uuid(), 'PROVISIONING', 'provisioning.active', 'a' || i, 1, $1::uuid, '{"urn": "u"}' FROM generate_series(1, $2::int) i`

func newOutbox(ctx context.Context, l *lab.Lab, name string, n int) (*outbox, error) {
	url, err := l.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	pool, err := pg.Open(ctx, url, "bench", 4)
	if err != nil {
		return nil, err
	}
	o := &outbox{Store: &event.Store{DB: pool}, hints: &hint.Bus{}, tenant: ids.New[ids.Tenant](), close: pool.Close}
	o.server = &stream.Server{Events: o, Hints: o.hints, Log: l.Logger, Interval: time.Hour}
	for done := 0; done < n; done += 50_000 { // each within the limit of a statement
		if _, err := pool.Exec(ctx, insertEvents, o.tenant.UUID, min(50_000, n-done)); err != nil {
			pool.Close()
			return nil, fmt.Errorf("filling the outbox: %w", err)
		}
	}
	o.since, err = lab.One[string](ctx, url, `SELECT event_id::text FROM outbox_events ORDER BY xid DESC, seq DESC OFFSET `+strconv.Itoa(missed)+` LIMIT 1`)
	if err == nil {
		err = l.Exec(ctx, url, `VACUUM ANALYZE outbox_events`)
	}
	return o, err
}

// resume receives the missed events on a new stream.
func (o *outbox) resume(ctx context.Context) (time.Duration, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	opened, err := o.server.Open(ctx, stream.Request{Caller: uuid.New(), Audience: stream.Audience{Tenant: o.tenant, Whole: true}, After: o.since})
	if err != nil {
		return 0, err
	}
	out := &counted{header: http.Header{}, want: missed * braces, done: end}
	_ = opened.SendSSE(out)
	return time.Since(began), nil
}

// statements counts the reads of the outbox for each event, with all clients connected.
func (o *outbox) statements(ctx context.Context, l *lab.Lab) (lab.Row, error) {
	clients, events := l.Scaled(crowdSize, tenants), 50
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	var received atomic.Int64
	for range clients {
		opened, err := o.server.Open(ctx, stream.Request{Caller: uuid.New(), Audience: stream.Audience{Tenant: o.tenant, Whole: true}})
		if err != nil {
			return lab.Row{}, err
		}
		all.Go(func() { _ = opened.SendSSE(&counted{header: http.Header{}, total: &received}) })
	}
	var before int64
	for n := range events + 1 {
		if n == 1 { // the first event proves that all clients are in the window
			before = o.queries.Load()
		}
		if _, err := o.DB.Exec(ctx, insertEvents, o.tenant.UUID, 1); err != nil {
			return lab.Row{}, fmt.Errorf("writing an event: %w", err)
		}
		o.hints.Send(event.Topic)
		for began := time.Now(); received.Load() < int64((n+1)*clients*braces); time.Sleep(time.Millisecond) {
			if time.Since(began) > lab.Patience {
				return lab.Row{}, fmt.Errorf("clients received %d parts", received.Load())
			}
		}
	}
	each := float64(o.queries.Load()-before) / float64(events)
	r := lab.Row{ID: "N3-sql", Path: fmt.Sprintf("statements for an event with %d clients", clients), Ours: each, Ratio: each, Min: each, Max: each}
	return r.AtMost(2), nil
}

// counted is the response of a client that counts what it receives.
type counted struct {
	header http.Header
	want   int
	got    int
	done   func()
	total  *atomic.Int64
}

// Header implements http.ResponseWriter.
func (c *counted) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (*counted) WriteHeader(int) {}

// Flush implements http.Flusher.
func (*counted) Flush() {}

// SetWriteDeadline is for http.ResponseController.
func (*counted) SetWriteDeadline(time.Time) error { return nil }

// Write implements http.ResponseWriter.
func (c *counted) Write(b []byte) (int, error) {
	n := strings.Count(string(b), "{")
	if c.total != nil {
		c.total.Add(int64(n))
		return len(b), nil
	}
	if c.got += n; c.got >= c.want {
		c.done()
	}
	return len(b), nil
}
