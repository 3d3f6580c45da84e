package consume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// pauses are the times between the ten attempts.
var pauses = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// maxAttempts is the number of failures after which an event becomes a dead letter.
const maxAttempts = len(pauses) + 1

// handle delivers one message, and acknowledges it after the commit.
func (r *Runner) handle(ctx context.Context, c Consumer, msg jetstream.Msg) {
	ctx, cancel := context.WithTimeout(ctx, effectWithin)
	defer cancel()
	m, err := msg.Metadata()
	if err != nil {
		return // not a message of a stream
	}
	id := idOf(c, m, msg)
	if cause := r.process(ctx, c, id, m, msg); cause != nil {
		r.fail(ctx, c, id, m, msg, cause)
		return
	}
	failpoint.Hit("consume.before_ack")
	_ = msg.Ack() // a lost one causes a repeated delivery
}

// idOf returns the id of the event, and for a message without one an id of its place in the stream.
func idOf(c Consumer, m *jetstream.MsgMetadata, msg jetstream.Msg) ids.Event {
	id, err := ids.Parse[ids.Event](msg.Headers().Get("ce-id"))
	if err != nil {
		id.UUID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d/%d", c.Stream, m.Sequence.Stream, m.Timestamp.UnixNano()))
	}
	return id
}

func (r *Runner) process(ctx context.Context, c Consumer, id ids.Event, m *jetstream.MsgMetadata, msg jetstream.Msg) error {
	tx, e, wanted, err := r.begin(ctx, c, id, m, msg)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it has no effect
	var topics []string
	if wanted {
		if topics, err = apply(ctx, tx, c, e); err != nil {
			return err
		}
	}
	failpoint.Hit("consume.before_commit")
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("processing event %s: %w", id, err)
	}
	failpoint.Hit("consume.after_commit")
	for _, topic := range topics {
		r.Hints.Send(topic)
	}
	return nil
}

// begin begins the transaction of a message and marks its event in one round trip.
func (r *Runner) begin(ctx context.Context, c Consumer, id ids.Event, m *jetstream.MsgMetadata, msg jetstream.Msg) (tx pgx.Tx, e event.Event, wanted bool, err error) {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	found := &marked{}
	if c.Stream == event.StreamDLQ {
		if e, err = letterOf(m, msg); err != nil {
			return nil, e, false, err
		}
		found.Event = e
		b.Queue(markLetter, c.Name, id.UUID, false, c.Unordered, false, e.OccurredAt).QueryRow(found.scanLetter)
	} else {
		c.mark(b, id, asPublished, found)
	}
	results := r.DB.SendBatch(ctx, b)
	tx = results.Tx()
	if err = found.check(c, id, results.Close()); err != nil {
		_ = tx.Rollback(ctx)
		return nil, e, false, err
	}
	return tx, found.Event, found.wanted, nil
}

// letterOf reads a dead letter, which is in no outbox.
func letterOf(m *jetstream.MsgMetadata, msg jetstream.Msg) (event.Event, error) {
	var letter event.DeadLetter
	if err := json.Unmarshal(msg.Data(), &letter); err != nil {
		return event.Event{}, fmt.Errorf("reading a dead letter: %w", err)
	}
	letter.Envelope.Stream, letter.Envelope.OccurredAt = event.StreamDLQ, m.Timestamp
	return letter.Envelope, nil
}

// mode is the reason why an event is processed.
type mode int

const (
	asPublished mode = iota // NATS has delivered it
	asRequested             // an operator wants its effect if it had none
	asRepeated              // an operator wants its effect again
)

// marked is an event after its row of the inbox was inserted.
type marked struct {
	event.Event

	registered bool // the consumer
	wanted     bool // the effect
}

// mark reads the event as the outbox has it, and inserts the row of the inbox. The effect of a published event is wanted
// if the consumer existed at its time, has not processed it, and has processed no newer event of its aggregate.
func (c Consumer) mark(b *pgx.Batch, id ids.Event, why mode, found *marked) {
	requested := why != asPublished
	b.Queue(markEvent, c.Name, id.UUID, requested, requested || c.Unordered, why == asRepeated).Query(found.scan)
}

func (f *marked) scan(rows pgx.Rows) (err error) {
	f.Event, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (event.Event, error) {
		return event.Scan(row, &f.registered, &f.wanted)
	})
	return err
}

func (f *marked) scanLetter(row pgx.Row) error { return row.Scan(&f.registered, &f.wanted) }

// check returns why the event must not be processed.
func (f *marked) check(c Consumer, id ids.Event, err error) error {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errs.New(errs.NotFound, "no such event")
	case err != nil:
		return fmt.Errorf("marking event %s as processed: %w", id, err)
	case !f.registered:
		return fmt.Errorf("consumer %s is not registered", c.Name)
	case c.Stream != event.StreamDLQ && !slices.Contains(c.Subjects, f.Type):
		return fmt.Errorf("event %s is %s, which %s does not process", id, f.Type, c.Name)
	}
	return nil
}

// apply runs the effect. A panic is a failure of this event and not of the server.
func apply(ctx context.Context, tx pgx.Tx, c Consumer, e event.Event) (topics []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the effect panicked: %v", p)
		}
	}()
	return c.Effect(ctx, tx, e)
}

// fail counts the failure and has NATS deliver the event again after a pause. After ten failures the event
// becomes a dead letter, and NATS delivers it no more. A failure that PostgreSQL cannot count is not the event's.
func (r *Runner) fail(ctx context.Context, c Consumer, id ids.Event, m *jetstream.MsgMetadata, msg jetstream.Msg, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countWithin)
	defer cancel()
	r.Metrics.failed(c.Name)
	letter, attempts, err := r.countFailure(ctx, c, id, msg.Subject(), cause, maxAttempts)
	if err == nil && attempts >= maxAttempts {
		err = r.publishDead(ctx, c, id, letter, attempts, m, msg, cause)
		if err == nil {
			_ = msg.TermWithReason("dead letter")
			return
		}
	}
	if err != nil {
		r.Log.WarnContext(ctx, "an event that failed is delivered again", "component", "consume", "consumer", c.Name, "event_id", id, "cause", cause, "err", err)
		attempts = int(min(m.NumDelivered, uint64(maxAttempts)))
	}
	_ = msg.NakWithDelay(pauses[min(attempts, len(pauses))-1])
}

func (r *Runner) countFailure(ctx context.Context, c Consumer, id ids.Event, subject string, cause error, most int) (letter uuid.UUID, attempts int, err error) {
	err = r.DB.QueryRow(ctx, countFailure, uuid.Must(uuid.NewV7()), c.Name, id.UUID, c.Stream, subject, cause.Error(), most).Scan(&letter, &attempts)
	if err != nil {
		return letter, 0, fmt.Errorf("counting a failure: %w", err)
	}
	return letter, attempts, nil
}

// publishDead publishes the dead letter under its own id: a killed worker publishes it again, and the stream
// drops the second one. A dead letter that cannot be processed has only its row, or it would cause the next one.
func (r *Runner) publishDead(ctx context.Context, c Consumer, id ids.Event, letter uuid.UUID, attempts int, m *jetstream.MsgMetadata, msg jetstream.Msg, cause error) error {
	r.Log.ErrorContext(ctx, "an event could not be processed and became a dead letter", "component", "consume",
		"consumer", c.Name, "event_id", id, "subject", msg.Subject(), "err", cause)
	if c.Stream == event.StreamDLQ {
		return nil
	}
	e, err := event.Get(ctx, r.DB, id)
	if err != nil { // not in the outbox
		e = event.Event{ID: id, Type: msg.Subject(), OccurredAt: m.Timestamp.UTC(), Version: event.Version, Payload: json.RawMessage(`{}`)}
	}
	dead := event.DeadLetter{ID: letter, Envelope: e, Consumer: c.Name, Error: cause.Error(), Attempts: attempts}
	return dead.Publish(ctx, r.JS, r.Environment, c.Stream)
}
