package events

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

const (
	relayed     = 20_000             // events of one run of O1
	backlog     = 1_000_000          // events of O4
	commits     = 5_000              // of one run of O2
	commitPairs = 8 * lab.LeastPairs // short ones, because single pairs differ by a third
	consumed    = 5_000              // events of one run of O5
	inFlight    = 1_024              // messages without a response, as of the relay
	fetched     = 64                 // messages of one fetch, as of our consumers
)

// Relaying compares the relay with a bare publisher, and measures the time until a consumer has an event, and a backlog.
func Relaying(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	p, err := newPipe(ctx, l, "o1")
	if err != nil {
		return nil, err
	}
	defer p.close()
	n := l.Scaled(relayed, 200)
	runs, err := l.Alternate(ctx, lab.LeastPairs, nothing, func(ctx context.Context) (time.Duration, error) {
		if err := p.fill(ctx, n); err != nil {
			return 0, err
		}
		return p.drain(ctx, n)
	}, func(ctx context.Context) (time.Duration, error) { return p.bare(ctx, n) })
	if err != nil {
		return nil, err
	}
	o1 := lab.Throughput(runs, n, "O1", "events from the outbox to JetStream / asynchronous publication with message ids").AtLeast(0.8)
	o1.CPUOurs, o1.CPUPeer = 0, 0 // ours has the time of the inserts
	o1.Note = fmt.Sprintf("both with the same message, %d without a response at most, and files that are synchronised", inFlight)
	latency, err := p.latency(ctx, o1.Ours/2)
	if err != nil {
		return nil, err
	}
	late, err := caughtUp(ctx, l, o1.Ours)
	return append(append([]lab.Row{o1}, latency...), late...), err
}

// bare publishes copies of a message of the relay, each with another id.
func (p *pipe) bare(ctx context.Context, n int) (time.Duration, error) {
	s, err := p.js.Stream(ctx, event.StreamProvisioning)
	if err != nil {
		return 0, fmt.Errorf("reading the stream: %w", err)
	}
	config := s.CachedInfo().Config
	config.Name, config.Subjects = "BENCH", []string{"bench.>"}
	if _, err := p.js.CreateOrUpdateStream(ctx, config); err != nil {
		return 0, fmt.Errorf("creating a stream: %w", err)
	}
	model, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq)
	if err != nil {
		return 0, fmt.Errorf("reading a message: %w", err)
	}
	began := time.Now()
	acks := make([]jetstream.PubAckFuture, 0, n)
	for i := range n {
		if i >= inFlight {
			if err := stored(ctx, acks[i-inFlight]); err != nil {
				return 0, err
			}
		}
		header := maps.Clone(model.Header)
		header[nats.MsgIdHdr] = []string{strconv.FormatInt(began.UnixNano(), 36) + strconv.Itoa(i)}
		delete(header, nats.ExpectedLastSeqHdr)
		delete(header, nats.ExpectedStreamHdr)
		ack, err := p.js.PublishMsgAsync(&nats.Msg{Subject: "bench.active", Header: header, Data: model.Data})
		if err != nil {
			return 0, fmt.Errorf("publishing: %w", err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks[max(0, n-inFlight):] {
		if err := stored(ctx, ack); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func stored(ctx context.Context, ack jetstream.PubAckFuture) error {
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return fmt.Errorf("publishing: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// caughtUp relays a backlog into an empty stream. The rate is that of O1.
func caughtUp(ctx context.Context, l *lab.Lab, rate float64) ([]lab.Row, error) {
	p, err := newPipe(ctx, l, "o4")
	if err != nil {
		return nil, err
	}
	defer p.close()
	n := l.Scaled(backlog, 400)
	if err := p.fill(ctx, n); err != nil {
		return nil, err
	}
	took, err := p.drain(ctx, n)
	if err != nil {
		return nil, err
	}
	r := lab.Row{ID: "O4", Path: fmt.Sprintf("relay with a backlog of %d events / O1", n), Unit: "/s", Ours: float64(n) / took.Seconds(), Peer: rate}
	r.Ratio = r.Ours / rate
	r.Min, r.Max = r.Ratio, r.Ratio
	lab.Wait(ctx, time.Second) // PostgreSQL counts the rows of a transaction within a second
	dead, err := lab.One[float64](ctx, p.url, `SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables WHERE relname LIKE 'outbox_events%'`)
	counter := lab.Row{ID: "O4-dead", Path: "dead rows of the outbox after them", Ours: dead, Ratio: dead, Min: dead, Max: dead}
	return []lab.Row{r.AtLeast(0.8), counter.AtMost(0)}, err
}

// Commits compares commits of an event that send a hint with those that send none.
func Commits(ctx context.Context, l *lab.Lab) (rows []lab.Row, err error) {
	p, err := newPipe(ctx, l, "o2")
	if err != nil {
		return nil, err
	}
	defer p.close()
	wake, stop := p.hints.Listen(event.Topic)
	defer stop()
	go func() {
		for range wake {
		}
	}()
	p.hints.Forward = hint.Merge(ctx, func(topic string) { _ = p.nc.Publish("hint."+topic, nil) })
	n := l.Scaled(commits, writers)
	for _, clients := range []int{16, writers} {
		with := func(ctx context.Context) (time.Duration, error) {
			return 0, p.commit(ctx, n, clients, func() { p.hints.Send(event.Topic) })
		}
		without := func(ctx context.Context) (time.Duration, error) { return 0, p.commit(ctx, n, clients, func() {}) }
		runs, err := l.Alternate(ctx, commitPairs, nothing, with, without)
		if err != nil {
			return nil, err
		}
		id := map[int]string{16: "O2", writers: "O2-64"}[clients]
		rows = append(rows, lab.Throughput(runs, n, id, fmt.Sprintf("commits with an event and a hint, %d clients / without the hint", clients)).AtLeast(0.95))
	}
	rows[0].Note = "the hint notifies a listener and is sent to NATS; no relay runs"
	return rows, nil
}

func (p *pipe) commit(ctx context.Context, n, clients int, after func()) error {
	var left atomic.Int64
	left.Store(int64(n))
	var all errgroup.Group
	for range clients {
		all.Go(func() error {
			for left.Add(-1) >= 0 {
				if err := p.write(ctx); err != nil {
					return err
				}
				after()
			}
			return nil
		})
	}
	return all.Wait()
}

const (
	createEffects = `CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL)`
	insertEffect  = `INSERT INTO effects (event_id) VALUES ($1)`
)

// Consuming compares a consumer, whose effect is a row, with a bare consumer that inserts the same row.
func Consuming(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	p, err := newPipe(ctx, l, "o5")
	if err != nil {
		return nil, err
	}
	defer p.close()
	n, run := l.Scaled(consumed, 100), 0
	if err := l.Exec(ctx, p.url, createEffects, `ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`); err != nil {
		return nil, err
	}
	if err := p.commit(ctx, n, writers, func() {}); err != nil {
		return nil, err
	}
	if _, err := p.drain(ctx, n); err != nil {
		return nil, err
	}
	next := func(do func(context.Context, string, int) (time.Duration, error)) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			run++
			return do(ctx, "bench_"+strconv.Itoa(run), n)
		}
	}
	runs, err := l.Alternate(ctx, lab.LeastPairs, nothing, next(p.consume), next(p.fetch))
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(runs, n, "O5", "events of a consumer with inbox and effect / fetch and the same insert").AtLeast(0.6)
	r.Note = "peer: a transaction for each message, without reading the event from the outbox"
	return []lab.Row{r}, nil
}

// consume processes all events of the stream with a new consumer.
func (p *pipe) consume(ctx context.Context, name string, n int) (time.Duration, error) {
	done := make(chan struct{})
	seen := 0
	c := consume.Consumer{
		Name: name, Stream: event.StreamProvisioning, Subjects: []string{"provisioning.active"},
		Effect: func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
			if seen++; seen == n {
				close(done)
			}
			_, err := tx.Exec(ctx, insertEffect, e.ID.UUID)
			return nil, err
		},
	}
	all := []consume.Consumer{c}
	r := &consume.Runner{DB: p.pool, JS: p.js, Hints: p.hints, Environment: "bench", Consumers: all, Metrics: consume.NewMetrics(p.pool, all), Log: p.lab.Logger}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- r.Run(running) }()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(10 * lab.Patience):
	}
	took := time.Since(began)
	stop()
	if err := <-ended; err != nil || seen < n {
		return 0, fmt.Errorf("consumed %d of %d events: %w", seen, n, err)
	}
	return took, ctx.Err()
}

// fetch inserts a row for each message.
func (p *pipe) fetch(ctx context.Context, name string, n int) (time.Duration, error) {
	began := time.Now()
	c, err := p.js.CreateConsumer(ctx, event.StreamProvisioning, jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: inFlight})
	if err != nil {
		return 0, fmt.Errorf("creating a consumer: %w", err)
	}
	for seen := 0; seen < n; {
		batch, err := c.Fetch(fetched)
		if err != nil {
			return 0, fmt.Errorf("fetching: %w", err)
		}
		for msg := range batch.Messages() {
			if err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insertEffect, msg.Headers().Get("ce-id"))
				return err
			}); err != nil {
				return 0, fmt.Errorf("inserting: %w", err)
			}
			_ = msg.Ack()
			if seen++; seen == n {
				break
			}
		}
	}
	return time.Since(began), nil
}
