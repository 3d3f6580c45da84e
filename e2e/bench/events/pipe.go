package events

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	writers   = 64 // connections of the pool, without those of relay and consumer
	streamAge = 7 * 24 * time.Hour
	waitEvery = time.Millisecond
)

// pipe is an outbox with JetStream on disk.
type pipe struct {
	lab    *lab.Lab
	url    string
	pool   *pgxpool.Pool
	server *natsd.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	hints  *hint.Bus
	tenant ids.Tenant
}

func newPipe(ctx context.Context, l *lab.Lab, name string) (_ *pipe, err error) {
	p := &pipe{lab: l, hints: &hint.Bus{}, tenant: ids.New[ids.Tenant]()}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.url, err = l.Database(ctx, name); err != nil {
		return nil, err
	}
	if p.pool, err = pg.Open(ctx, p.url, "bench", writers+4); err != nil {
		return nil, err
	}
	if p.server, err = natsd.Start(natsd.Config{Dir: filepath.Join(l.Dir, name+"-nats"), Listen: true}); err != nil {
		return nil, err
	}
	if p.nc, err = natsd.Dial(p.server.URL(), "bench"); err != nil {
		return nil, err
	}
	if p.js, err = natsd.JetStream(p.nc); err != nil {
		return nil, err
	}
	return p, p.relay(ctx, func() error { return p.published(ctx, 0) })
}

func (p *pipe) close() {
	if p.nc != nil {
		p.nc.Close()
	}
	if p.server != nil {
		p.server.Stop()
	}
	if p.pool != nil {
		p.pool.Close()
	}
}

// fill writes events while no relay runs.
func (p *pipe) fill(ctx context.Context, n int) error {
	for done := 0; done < n; done += 50_000 { // each within the limit of a statement
		if _, err := p.pool.Exec(ctx, insertEvents, p.tenant.UUID, min(50_000, n-done)); err != nil {
			return fmt.Errorf("filling the outbox: %w", err)
		}
	}
	return nil
}

// write commits one event, as a change does.
func (p *pipe) write(ctx context.Context) error {
	id := ids.New[ids.Event]()
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		ID: id, Stream: event.StreamProvisioning, Subject: "provisioning.active", Aggregate: "allocation:" + id.String(), Sequence: 1, Tenant: p.tenant, URN: "u", Payload: struct{}{},
	})
	if err := p.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	return nil
}

// relay runs the relay while it calls do.
func (p *pipe) relay(ctx context.Context, do func() error) error {
	r := &event.Relay{DB: p.pool, JS: p.js, Hints: p.hints, Environment: "bench", Retention: func() time.Duration { return streamAge }, Log: p.lab.Logger}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	err := do()
	stop()
	return errors.Join(err, <-ended)
}

// last returns the number of events of the stream.
func (p *pipe) last(ctx context.Context) (uint64, error) {
	s, err := p.js.Stream(ctx, event.StreamProvisioning)
	if err != nil {
		return 0, fmt.Errorf("reading the stream: %w", err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// published waits until the stream has so many events.
func (p *pipe) published(ctx context.Context, want uint64) error {
	began := time.Now()
	for {
		have, err := p.last(ctx)
		if err == nil && have >= want {
			return nil
		}
		if time.Since(began) > 40*lab.Patience || ctx.Err() != nil {
			return fmt.Errorf("the stream has %d of %d events: %w", have, want, errors.Join(err, ctx.Err()))
		}
		lab.Wait(ctx, waitEvery)
	}
}

// drain relays the events that wait, and returns the duration.
func (p *pipe) drain(ctx context.Context, n int) (took time.Duration, err error) {
	before, err := p.last(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = p.relay(ctx, func() error {
		err := p.published(ctx, before+uint64(n)) //nolint:gosec // a count
		took = time.Since(began)
		return err
	})
	return took, err
}
