package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// RelayName is the consumer of a dead letter that the relay could not publish.
const RelayName = "relay"

// DeadLetter is the content of a message in the dead-letter stream.
type DeadLetter struct {
	ID uuid.UUID `json:"-"` // by which the stream recognises a repetition
	// Envelope is the event; one that is too large for NATS is without payload,
	// which stays in the outbox.
	Envelope Event  `json:"envelope"`
	Consumer string `json:"consumer"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
}

// Publish adds the letter to the dead-letter stream, under the stream and the subject of its event.
func (d DeadLetter) Publish(ctx context.Context, js jetstream.JetStream, environment, stream string) error {
	err := d.publish(ctx, js, environment, stream)
	if errors.Is(err, nats.ErrMaxPayload) {
		d.Envelope.Payload = nil
		err = d.publish(ctx, js, environment, stream)
	}
	if err != nil {
		return fmt.Errorf("publishing a dead letter: %w", err)
	}
	return nil
}

func (d DeadLetter) publish(ctx context.Context, js jetstream.JetStream, environment, stream string) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding a dead letter: %w", err)
	}
	header := headerOf(environment, d.Envelope, StreamDLQ, "")
	id := ids.From[ids.Event](d.ID).String()
	header[nats.MsgIdHdr], header["ce-id"] = []string{id}, []string{id}
	prefix := "dlq." + strings.ToLower(stream) + "."
	msg := &nats.Msg{Subject: prefix + d.Envelope.Type, Header: header, Data: data}
	_, err = js.PublishMsg(ctx, msg)
	if errors.Is(err, nats.ErrBadSubject) {
		msg.Subject = prefix + "malformed"
		_, err = js.PublishMsg(ctx, msg)
	}
	return err
}

// retry publishes the events whose dead letter an operator wants to be retried. They follow the events that were
// published meanwhile.
func (t *term) retry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	events, err := pg.List(ctx, t.conn, "retries", selectRetries, scanEvent, RelayName)
	if err != nil {
		return err
	}
	for _, e := range events {
		cause := ""
		if err := t.publishAgain(ctx, e); err != nil {
			if !t.relay.JS.Conn().IsConnected() {
				return errDisconnected
			}
			cause = err.Error()
		}
		if _, err := t.conn.Exec(ctx, endRetry, e.ID.UUID, RelayName, cause); err != nil {
			return fmt.Errorf("ending a retry: %w", err)
		}
	}
	return nil
}

func (t *term) publishAgain(ctx context.Context, e Event) error {
	l := t.lines[slices.IndexFunc(t.lines, func(l *line) bool { return l.stream == e.Stream })]
	msg, err := t.relay.message(e, l.stream, l.last)
	if err != nil {
		return err
	}
	ack, err := t.relay.JS.PublishMsg(ctx, msg)
	if err != nil {
		return fmt.Errorf("publishing event %s again: %w", e.ID, err)
	}
	if !ack.Duplicate {
		l.last = ack.Sequence
	}
	return nil
}
