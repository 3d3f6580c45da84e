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
	// After a crash or an outage, events are published again within minutes. A consumer recognises them by their id and drops
	// later duplicates.
	duplicateWindow = 10 * time.Minute
	// EpochKey is the metadata key of the epoch of a stream, and of a consumer the epoch that it has begun with.
	EpochKey = "gpuaas_epoch"
)

// outboxStreams lists the streams that an event may name, in the order in which they are published.
var outboxStreams = [...]string{StreamProvisioning, StreamBilling, StreamPayments, StreamFleet}

func configOf(stream, epoch string, maxAge time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:       stream,
		Subjects:   []string{strings.ToLower(stream) + ".>"},
		Storage:    jetstream.FileStorage,
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew, // full is an outage that the outbox outlasts; dropping the old would lose facts
		MaxAge:     maxAge,
		Duplicates: duplicateWindow,
		Metadata:   map[string]string{EpochKey: epoch},
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
// messages than it has acknowledged, a power cut has removed its end. The stream is then created again with a new
// epoch, and filled from the beginning of the outbox.
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
		if info, err = t.recreate(ctx, info.Config, acked); err != nil {
			return nil, err
		}
		if err := t.readLine(ctx, l, info); err != nil {
			return nil, err
		}
		l.at = Position{}
	}
	return l, nil
}

func (t *term) recreate(ctx context.Context, config jetstream.StreamConfig, acked int64) (*jetstream.StreamInfo, error) {
	if err := t.relay.JS.DeleteStream(ctx, config.Name); err != nil {
		return nil, fmt.Errorf("deleting stream %s, which lost its end: %w", config.Name, err)
	}
	config.Metadata[EpochKey] = uuid.NewString()
	return t.create(ctx, config, acked)
}

// create creates a stream whose sequences continue after those that the lost one has acknowledged. A worker may
// still process a message of the lost stream, and acknowledge it by its sequence: it must not be that of another
// message of the new stream.
func (t *term) create(ctx context.Context, config jetstream.StreamConfig, acked int64) (*jetstream.StreamInfo, error) {
	config.FirstSeq = uint64(acked) + 1 //nolint:gosec // a stream's sequence
	stream, err := t.relay.JS.CreateStream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("creating stream %s: %w", config.Name, err)
	}
	return stream.CachedInfo(), nil
}

// readLine gives the position the stream's epoch; another one than it had sends
// it back to the first fact.
func (t *term) readLine(ctx context.Context, l *line, info *jetstream.StreamInfo) error {
	tag, err := t.conn.Exec(ctx, ensurePosition, l.stream, info.Config.Metadata[EpochKey])
	if err != nil {
		return fmt.Errorf("comparing the epoch of %s: %w", l.stream, err)
	}
	if tag.RowsAffected() > 0 {
		t.relay.Log.Info("a stream is filled from the first event", "stream", l.stream)
	}
	l.last = info.State.LastSeq
	return nil
}

// ensureStream finds the stream or creates it. Other settings of an operator stay: only the epoch is added,
// and the maximum age follows the policy.
func (t *term) ensureStream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	js := t.relay.JS
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		var acked int64
		if err := t.conn.QueryRow(ctx, readAcked, name).Scan(&acked); err != nil {
			return nil, fmt.Errorf("reading the last sequence of %s: %w", name, err)
		}
		return t.create(ctx, configOf(name, uuid.NewString(), t.relay.Retention()), acked)
	}
	if err != nil {
		return nil, fmt.Errorf("ensuring stream %s: %w", name, err)
	}
	info := stream.CachedInfo()
	if info.Config.Metadata[EpochKey] == "" {
		return t.newEpoch(ctx, info.Config)
	}
	if maxAge := t.relay.Retention(); info.Config.MaxAge != maxAge {
		info.Config.MaxAge = maxAge
		if stream, err = js.UpdateStream(ctx, info.Config); err != nil {
			return nil, fmt.Errorf("setting the maximum age of stream %s: %w", name, err)
		}
		return stream.CachedInfo(), nil
	}
	return info, nil
}

func (t *term) newEpoch(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	config.Metadata[EpochKey] = uuid.NewString()
	stream, err := t.relay.JS.UpdateStream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("giving stream %s an epoch: %w", config.Name, err)
	}
	return stream.CachedInfo(), nil
}
