package event

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxFailures is the number of failures of one event, while the stream accepts others, after which
	// it becomes a dead letter.
	maxFailures = 10
	// retryAfter is the pause between attempts to publish an event that the server rejected. The events
	// after it wait; ten attempts delay them by a fifth of a second.
	retryAfter = 20 * time.Millisecond
)

// errMalformed is a fact that has no message form.
var errMalformed = errors.New("malformed event")

// overcome deals with the fact that stopped a batch: it finds the place in the
// stream again, counts a failure that is the fact's own, or, when NATS is to
// blame, returns the cause.
func (t *term) overcome(ctx context.Context, l *line, e Event, cause error) error {
	var api *jetstream.APIError
	refused := errors.As(cause, &api)
	switch {
	case refused && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return t.findPlace(ctx, l)
	case refused && api.Code == http.StatusBadRequest: // about the message, not about the server
		sleep(ctx, nil, retryAfter)
		return t.countFailure(ctx, l, e, cause)
	case errors.Is(cause, nats.ErrMaxPayload), errors.Is(cause, nats.ErrBadSubject),
		errors.Is(cause, nats.ErrBadHeaderMsg), errors.Is(cause, errMalformed):
		// The client library itself rejects the event and will do so again, so a pause would not help.
		return t.countFailure(ctx, l, e, cause)
	}
	return cause
}

// findPlace reads the last sequence of the stream. A wrong expectation is corrected by the answer to the
// first message, so each pass makes progress.
func (t *term) findPlace(ctx context.Context, l *line) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	stream, err := t.relay.JS.Stream(ctx, l.stream)
	if err != nil {
		return fmt.Errorf("finding the place in %s: %w", l.stream, err)
	}
	l.last = stream.CachedInfo().State.LastSeq
	return nil
}

// countFailure notes the failure where operators see it; at the tenth the fact
// goes to the dead letters, and the position past it.
func (t *term) countFailure(ctx context.Context, l *line, e Event, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var failures int
	if err := t.conn.QueryRow(ctx, countFailure, e.ID.UUID, l.stream, cause.Error()).Scan(&failures); err != nil {
		return fmt.Errorf("counting a failure: %w", err)
	}
	if failures < maxFailures {
		return nil
	}
	if err := t.deadLetter(ctx, l, e, cause, failures); err != nil {
		return err
	}
	if _, err := t.conn.Exec(ctx, markDead, uuid.Must(uuid.NewV7()), e.ID.UUID, e.Type, RelayName); err != nil {
		return fmt.Errorf("marking a dead letter: %w", err)
	}
	t.relay.Log.Error("an event could not be published and became a dead letter",
		"event_id", e.ID, "subject", e.Type, "err", cause)
	return t.advance(ctx, l, e.Position)
}

func (t *term) deadLetter(ctx context.Context, l *line, e Event, cause error, attempts int) error {
	letter := DeadLetter{ID: e.ID.UUID, Envelope: e, Consumer: RelayName, Error: cause.Error(), Attempts: attempts}
	return letter.Publish(ctx, t.relay.JS, t.relay.Environment, l.stream)
}
