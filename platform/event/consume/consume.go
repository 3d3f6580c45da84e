// Package consume delivers published events to the consumers of this process. The effect of an event and
// the row that marks it as processed are one transaction, so that a repeated delivery has no second effect.
// NATS only names the event: its content is read from the outbox. The package knows no effect, and decides
// nothing about the events that it delivers.
package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Consumer is a durable consumer of one stream, shared by all workers.
type Consumer struct {
	Name     string
	Stream   string
	Subjects []string
	// Effect runs in the transaction that marks the event as processed. It returns the topics of the hints to send after
	// the commit; they are lost with the process, and are not sent for retries and replays.
	Effect func(ctx context.Context, tx pgx.Tx, e event.Event) (topics []string, err error)
	// Unordered consumers also process an event that is older than the last one of its aggregate.
	Unordered bool
}

// Runner delivers events to consumers until its context ends. Any number of processes may run it.
type Runner struct {
	DB          pg.Pool
	JS          jetstream.JetStream
	Hints       *hint.Bus
	Environment string
	Consumers   []Consumer
	Metrics     *Metrics
	Log         *slog.Logger
}

const (
	maxAckPending = 1_000
	// countWithin limits the count of a failure after effectWithin.
	countWithin = 5 * time.Second
	// batchSize limits the messages that wait in this process while ackWait passes.
	batchSize = 64
)

// Variables for tests.
var (
	ackWait = 30 * time.Second
	// effectWithin is shorter than ackWait, so that an effect ends before NATS delivers its event again.
	effectWithin = 20 * time.Second
	// checkEvery is the interval of comparing the epochs of stream and consumer.
	checkEvery = 10 * time.Second
	// pauseAfter is the pause after NATS or PostgreSQL was not available.
	pauseAfter = time.Second
)

// Run returns when ctx ends. A consumer that fails does not stop the others.
func (r *Runner) Run(ctx context.Context) error {
	for err := r.register(ctx); err != nil && ctx.Err() == nil; err = r.register(ctx) {
		r.Log.WarnContext(ctx, "the consumers pause", "component", "consume", "err", err)
		sleep(ctx, nil, pauseAfter)
	}
	var running sync.WaitGroup
	for _, c := range r.Consumers {
		running.Go(func() { r.consume(ctx, c) })
	}
	running.Go(func() { r.serveRequests(ctx) })
	running.Wait()
	return nil
}

func (r *Runner) consume(ctx context.Context, c Consumer) {
	for ctx.Err() == nil {
		err := r.receive(ctx, c)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) { // the relay creates the streams
			r.Log.WarnContext(ctx, "a consumer pauses", "component", "consume", "consumer", c.Name, "err", err)
		}
		sleep(ctx, nil, pauseAfter)
	}
}

// receive delivers messages for checkEvery, and for at most as long again. NATS ends a request for messages, and not a
// context: messages that are on their way when a context ends are lost until ackWait has passed, and a newer event of their
// aggregate has been processed by then.
func (r *Runner) receive(ctx context.Context, c Consumer) error {
	durable, err := r.open(ctx, c)
	if err != nil {
		return err
	}
	fetching, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	for fetching.Err() == nil {
		batch, err := durable.Fetch(batchSize, jetstream.FetchMaxWait(checkEvery))
		if err != nil {
			return fmt.Errorf("fetching events: %w", err)
		}
		if !r.handleAll(ctx, c, batch.Messages()) {
			return nil // NATS delivers the others again
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return fmt.Errorf("receiving events: %w", err)
		}
	}
	return nil
}

// handleAll delivers the messages of a request. It returns false if ctx has ended before them: NATS delivers those that have
// arrived at once to another process, and what is on its way after ackWait.
func (r *Runner) handleAll(ctx context.Context, c Consumer, messages <-chan jetstream.Msg) bool {
	for {
		if ctx.Err() != nil {
			for len(messages) > 0 {
				if msg, more := <-messages; more {
					_ = msg.Nak()
				}
			}
			return false
		}
		select {
		case <-ctx.Done():
		case msg, more := <-messages:
			if !more {
				return true
			}
			r.handle(context.WithoutCancel(ctx), c, msg)
		}
	}
}

// open returns the durable consumer, which it creates where the stream has none of its epoch. A stream
// with another epoch was filled again from the first event; the old position would skip events.
func (r *Runner) open(ctx context.Context, c Consumer) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	stream, err := r.JS.Stream(ctx, c.Stream)
	if err != nil {
		return nil, fmt.Errorf("finding stream %s: %w", c.Stream, err)
	}
	epoch := stream.CachedInfo().Config.Metadata[event.EpochKey]
	if epoch == "" {
		return nil, fmt.Errorf("stream %s has no epoch yet", c.Stream)
	}
	durable, err := stream.Consumer(ctx, c.Name)
	if err == nil && durable.CachedInfo().Config.Metadata[event.EpochKey] != epoch {
		r.Log.InfoContext(ctx, "a stream is consumed from its first event", "component", "consume", "consumer", c.Name)
		err = stream.DeleteConsumer(ctx, c.Name)
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("comparing the epoch of consumer %s: %w", c.Name, err)
	}
	if durable, err = stream.CreateOrUpdateConsumer(ctx, configOf(c, epoch)); err != nil {
		return nil, fmt.Errorf("creating consumer %s: %w", c.Name, err)
	}
	return durable, r.storeState(ctx, c, stream, durable.CachedInfo())
}

func configOf(c Consumer, epoch string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:        c.Name,
		FilterSubjects: c.Subjects,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        ackWait,
		MaxAckPending:  maxAckPending,
		// The failures are counted in PostgreSQL. A limit of NATS would end the deliveries of an event whose
		// worker was killed in its last attempt, and no dead letter would exist.
		MaxDeliver: -1,
		Metadata:   map[string]string{event.EpochKey: epoch},
	}
}

// sleep waits for a hint, the duration, or the end of ctx.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
	case <-ctx.Done():
	case <-timer.C:
	}
}
