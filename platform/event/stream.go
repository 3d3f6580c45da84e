package event

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// retention is the default of event.outbox_days, so that a stream can be refilled from the outbox.
	retention = 30 * 24 * time.Hour
	// After a crash or an outage, events are published again within minutes. A consumer recognises them by their id and drops
	// later duplicates.
	duplicateWindow = 10 * time.Minute
	// epochKey is the metadata key of the stream's epoch.
	epochKey = "gpuaas_epoch"
)

// outboxStreams lists the streams that an event may name, in the order in which they are published.
var outboxStreams = [...]string{StreamProvisioning, StreamBilling, StreamPayments, StreamFleet}

func configOf(stream, epoch string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:       stream,
		Subjects:   []string{strings.ToLower(stream) + ".>"},
		Storage:    jetstream.FileStorage,
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew, // full is an outage that the outbox outlasts; dropping the old would lose facts
		MaxAge:     retention,
		Duplicates: duplicateWindow,
		Metadata:   map[string]string{epochKey: epoch},
	}
}

// openLines makes sure that every stream is there, and that its position belongs
// to it.
func (t *term) openLines(ctx context.Context) ([]*line, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := t.ensureStream(ctx, StreamDLQ); err != nil {
		return nil, err
	}
	var lines []*line
	for _, stream := range outboxStreams {
		l, err := t.openLine(ctx, stream)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// openLine reads the state of a stream and its position in the outbox. If the stream has fewer
// messages than it has acknowledged, a power cut has removed its end. The stream then gets a new
// epoch and is filled again from the beginning of the outbox.
func (t *term) openLine(ctx context.Context, stream string) (*line, error) {
	info, err := t.ensureStream(ctx, stream)
	if err != nil {
		return nil, err
	}
	l := &line{stream: stream}
	if err := t.readLine(ctx, l, info); err != nil {
		return nil, err
	}
	var acked int64
	if err := t.conn.QueryRow(ctx, readPosition, stream).Scan(&l.at.XID, &l.at.Seq, &acked); err != nil {
		return nil, fmt.Errorf("reading the position of %s: %w", stream, err)
	}
	if int64(info.State.LastSeq) < acked { //nolint:gosec // a stream's sequence
		// It acknowledged more than it has: a power cut took its tail.
		t.relay.Log.Error("a stream lost acknowledged events; it is filled again", "stream", stream)
		if info, err = t.newEpoch(ctx, info.Config); err != nil {
			return nil, err
		}
		if err := t.readLine(ctx, l, info); err != nil {
			return nil, err
		}
		l.at = Position{}
	}
	return l, nil
}

// readLine gives the position the stream's epoch; another one than it had sends
// it back to the first fact.
func (t *term) readLine(ctx context.Context, l *line, info *jetstream.StreamInfo) error {
	tag, err := t.conn.Exec(ctx, ensurePosition, l.stream, info.Config.Metadata[epochKey])
	if err != nil {
		return fmt.Errorf("comparing the epoch of %s: %w", l.stream, err)
	}
	if tag.RowsAffected() > 0 {
		t.relay.Log.Info("a stream is filled from the first event", "stream", l.stream)
	}
	l.last = info.State.LastSeq
	return nil
}

// ensureStream finds the stream or makes it. Whatever else its operator has set
// stays; only an epoch is added where it has none.
func (t *term) ensureStream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	js := t.relay.JS
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, configOf(name, uuid.NewString()))
	}
	if err != nil {
		return nil, fmt.Errorf("ensuring stream %s: %w", name, err)
	}
	info := stream.CachedInfo()
	if info.Config.Metadata[epochKey] == "" {
		return t.newEpoch(ctx, info.Config)
	}
	return info, nil
}

func (t *term) newEpoch(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	config.Metadata[epochKey] = uuid.NewString()
	stream, err := t.relay.JS.UpdateStream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("giving stream %s an epoch: %w", config.Name, err)
	}
	return stream.CachedInfo(), nil
}
