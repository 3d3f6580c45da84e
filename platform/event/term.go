package event

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/internal/failpoint"
)

const (
	// One position update per batch: at 2,000 it is lost in the noise.
	batchSize = 2_000
	// A stream can vanish while nothing is published.
	checkEvery = 10 * time.Second
)

// term is one process's time as leader.
type term struct {
	relay *Relay
	conn  *pgx.Conn // owns the lock, and moves the positions

	lines      []*line
	checked    time.Time
	retried    time.Time
	reconnects uint64
	moved      bool
}

// line is one stream's way out.
type line struct {
	stream string
	at     Position // of the last event that the stream has
	last   uint64   // the stream's last sequence
	// chained decides how the next expected sequence is computed: each one higher, or all the same,
	// because the messages are published already.
	chained bool
}

// pass checks the streams when it is time to, and publishes all that waits.
func (t *term) pass(ctx context.Context) error {
	nc := t.relay.JS.Conn()
	if !nc.IsConnected() {
		// The client would buffer messages while it is disconnected, so check here.
		return errDisconnected
	}
	now := t.relay.Clock.Now()
	if reconnects := nc.Stats().Reconnects; t.lines == nil || reconnects != t.reconnects || now.Sub(t.checked) >= checkEvery {
		lines, err := t.openLines(ctx)
		if err != nil {
			return err
		}
		t.lines, t.checked, t.reconnects = lines, now, reconnects
	}
	for _, l := range t.lines {
		if err := t.pump(ctx, l); err != nil {
			return fmt.Errorf("relaying %s: %w", l.stream, err)
		}
	}
	if now.Sub(t.retried) < pollEvery {
		return nil
	}
	t.retried = now
	return t.retry(ctx)
}

// pump publishes all that waits in one stream. The next batch is read while the
// last one's answers are on their way.
func (t *term) pump(ctx context.Context, l *line) error {
	batch, err := t.fetch(ctx, l.stream, l.at)
	for err == nil && len(batch) > 0 {
		flight := t.send(ctx, l, batch)
		var next []Event
		if len(batch) == batchSize {
			if next, err = t.fetch(ctx, l.stream, batch[len(batch)-1].Position); err != nil {
				return err // what is in the air is published again, under the same ids
			}
		}
		done, cause := flight.land(ctx, l)
		if done > 0 {
			if err := t.advance(ctx, l, batch[done-1].Position); err != nil {
				return err
			}
		}
		if cause != nil {
			if err := t.overcome(ctx, l, batch[done], cause); err != nil {
				return err
			}
			next, err = t.fetch(ctx, l.stream, l.at)
		}
		batch = next
	}
	return err
}

func (t *term) fetch(ctx context.Context, stream string, after Position) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	rows, err := t.conn.Query(ctx, selectStream, stream, after.XID, after.Seq, batchSize)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	batch, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return batch, nil
}

// advance moves the position past what the stream has acknowledged.
func (t *term) advance(ctx context.Context, l *line, to Position) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// A crash here publishes the batch again. The stream drops what it still
	// knows by id; consumers drop the rest.
	failpoint.Hit("relay.after_publish")
	if _, err := t.conn.Exec(ctx, movePosition, l.stream, to.XID, to.Seq, int64(l.last)); err != nil { //nolint:gosec // a stream's sequence
		return fmt.Errorf("moving the position: %w", err)
	}
	failpoint.Hit("relay.after_position")
	l.at, t.moved = to, true
	return nil
}

// headerOf returns the CloudEvents headers of an event. The stream recognises a repetition by the id; the
// expected stream turns a wrong subject into an error.
func headerOf(environment string, e Event, stream, urn string) nats.Header {
	h := nats.Header{
		nats.MsgIdHdr:          {e.ID.String()},
		nats.ExpectedStreamHdr: {stream},
		"ce-specversion":       {"1.0"},
		"ce-id":                {e.ID.String()},
		"ce-source":            {"/gpuaas/" + environment},
		"ce-type":              {"io.gpuaas." + e.Type + ".v1"},
		"ce-time":              {e.OccurredAt.Format(time.RFC3339Nano)},
		"content-type":         {"application/json"},
		"Gpuaas-Aggregate":     {e.Aggregate},
		"Gpuaas-Sequence":      {fmt.Sprint(e.Sequence)},
	}
	if urn != "" {
		h["ce-subject"] = []string{urn}
	}
	if e.Trace != "" {
		h["traceparent"] = []string{e.Trace}
	}
	return h
}
