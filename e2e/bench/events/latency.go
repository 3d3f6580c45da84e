package events

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	single   = 500                    // events of O3 one by one
	loaded   = 5 * time.Second        // under load
	perBatch = 10 * time.Millisecond  // between two commits under load
	slowest  = 100 * time.Millisecond // goal of p99
)

// latency measures the time from a commit to a consumer, one event after the other and at a rate of events in a second. The
// peer is a request over NATS.
func (p *pipe) latency(ctx context.Context, rate float64) ([]lab.Row, error) {
	n := p.lab.Scaled(single, 20)
	c, err := p.js.CreateConsumer(ctx, event.StreamProvisioning, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		return nil, fmt.Errorf("creating a consumer: %w", err)
	}
	arrived := make(chan time.Time, 1<<20)
	receiving, err := c.Consume(func(jetstream.Msg) { arrived <- time.Now() })
	if err != nil {
		return nil, fmt.Errorf("consuming: %w", err)
	}
	defer receiving.Stop()
	echo, err := p.nc.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	defer func() { _ = echo.Unsubscribe() }()
	var one, request, many []float64
	var achieved float64
	err = p.relay(ctx, func() error {
		for range n {
			took, err := p.arrival(ctx, arrived)
			if err != nil {
				return err
			}
			one = append(one, took.Seconds())
			began := time.Now()
			if _, err := p.nc.RequestWithContext(ctx, "echo", nil); err != nil {
				return fmt.Errorf("requesting: %w", err)
			}
			request = append(request, time.Since(began).Seconds())
		}
		var err error
		many, achieved, err = p.load(ctx, rate, arrived)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := lab.Row{ID: "O3", Path: "commit → consumer, p50 / request over NATS", Unit: " ms", Ours: lab.Median(one) * 1e3, Peer: lab.Median(request) * 1e3}
	r.Ratio = r.Ours / r.Peer
	r.Min, r.Max = r.Ratio, r.Ratio
	late := lab.Quantile(many, 0.99)
	p99 := lab.Row{ID: "O3-p99", Path: "the same at half of O1's load, p99", Unit: " ms", Ours: late * 1e3, Peer: slowest.Seconds() * 1e3, Ratio: late / slowest.Seconds()}
	p99.Min, p99.Max = p99.Ratio, p99.Ratio
	p99.Note = fmt.Sprintf("wanted %.0f events in a second, and wrote %.0f", rate, achieved)
	return []lab.Row{r.AtMost(20), p99.AtMost(1)}, nil
}

// arrival writes an event and returns the time from its commit until its arrival.
func (p *pipe) arrival(ctx context.Context, arrived <-chan time.Time) (time.Duration, error) {
	if err := p.write(ctx); err != nil {
		return 0, err
	}
	committed := time.Now()
	p.hints.Send(event.Topic)
	at, err := next(ctx, arrived)
	return at.Sub(committed), err
}

func next(ctx context.Context, arrived <-chan time.Time) (time.Time, error) {
	select {
	case at := <-arrived:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(lab.Patience):
		return time.Time{}, fmt.Errorf("no event arrived in %s", lab.Patience)
	}
}

// load commits events at the rate, and returns the time of each until its arrival. One writer commits them, so that they
// arrive in this sequence.
func (p *pipe) load(ctx context.Context, rate float64, arrived <-chan time.Time) (took []float64, achieved float64, err error) {
	batches := p.lab.Scaled(int(loaded/perBatch), 10)
	size := max(1, int(rate*perBatch.Seconds()))
	commits := make(chan time.Time, batches)
	var failed atomic.Pointer[error]
	began := time.Now()
	go func() {
		defer close(commits)
		for i := range batches {
			lab.Wait(ctx, time.Until(began.Add(time.Duration(i)*perBatch)))
			if _, err := p.pool.Exec(ctx, insertEvents, p.tenant.UUID, size); err != nil {
				failed.Store(&err)
				return
			}
			commits <- time.Now()
			p.hints.Send(event.Topic)
		}
		achieved = float64(batches*size) / time.Since(began).Seconds()
	}()
	for committed := range commits {
		for range size {
			at, err := next(ctx, arrived)
			if err != nil {
				return nil, 0, err
			}
			took = append(took, at.Sub(committed).Seconds())
		}
	}
	if err := failed.Load(); err != nil {
		return nil, 0, fmt.Errorf("writing events: %w", *err)
	}
	return took, achieved, nil
}
