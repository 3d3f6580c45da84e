package consume

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

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
	var topics []string
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		e, err := read(ctx, tx, c, id, m, msg)
		if err != nil {
			return err
		}
		wanted, err := mark(ctx, tx, c, id, e, asPublished)
		if err != nil {
			return err
		}
		if wanted {
			if topics, err = apply(ctx, tx, c, e); err != nil {
				return err
			}
		}
		failpoint.Hit("consume.before_commit")
		return nil
	})
	if err != nil {
		return err
	}
	failpoint.Hit("consume.after_commit")
	for _, topic := range topics {
		r.Hints.Send(topic)
	}
	return nil
}

// mode is the reason why an event is processed.
type mode int

const (
	asPublished mode = iota // NATS has delivered it
	asRequested             // an operator wants its effect if it had none
	asRepeated              // an operator wants its effect again
)

// mark inserts the row of the inbox, and reports whether the effect is wanted. Of a published event it is if the
// consumer existed at its time, has not processed it, and has processed no newer event of its aggregate.
func mark(ctx context.Context, tx pgx.Tx, c Consumer, id ids.Event, e event.Event, why mode) (wanted bool, err error) {
	requested, registered := why != asPublished, false
	row := tx.QueryRow(ctx, markProcessed, c.Name, id.UUID, e.Aggregate, e.Sequence, requested || c.Unordered, e.OccurredAt, requested, why == asRepeated)
	if err := row.Scan(&registered, &wanted); err != nil {
		return false, fmt.Errorf("marking event %s as processed: %w", id, err)
	}
	if !registered {
		return false, fmt.Errorf("consumer %s is not registered", c.Name)
	}
	return wanted, nil
}

// read returns the event as the outbox has it. A dead letter is in no outbox.
func read(ctx context.Context, tx pgx.Tx, c Consumer, id ids.Event, m *jetstream.MsgMetadata, msg jetstream.Msg) (event.Event, error) {
	if c.Stream == event.StreamDLQ {
		var letter event.DeadLetter
		if err := json.Unmarshal(msg.Data(), &letter); err != nil {
			return event.Event{}, fmt.Errorf("reading a dead letter: %w", err)
		}
		letter.Envelope.Stream, letter.Envelope.OccurredAt = event.StreamDLQ, m.Timestamp
		return letter.Envelope, nil
	}
	return find(ctx, tx, c, id)
}

func find(ctx context.Context, tx pgx.Tx, c Consumer, id ids.Event) (event.Event, error) {
	e, err := event.Get(ctx, tx, id)
	if err == nil && !slices.Contains(c.Subjects, e.Type) {
		return e, fmt.Errorf("event %s is %s, which %s does not process", id, e.Type, c.Name)
	}
	return e, err
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
