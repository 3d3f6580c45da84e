package event

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamEnd is the last message of a stream, and the one that the database has recorded as published.
type StreamEnd struct {
	Stream   string `json:"stream"`
	Last     uint64 `json:"last"`
	Recorded int64  `json:"recorded"`
}

// Ahead returns the streams that contain more messages than the database knows: it was restored to an earlier time.
func (r *Relay) Ahead(ctx context.Context) ([]StreamEnd, error) {
	ahead := []StreamEnd{}
	for _, name := range outboxStreams {
		end := StreamEnd{Stream: name}
		stream, err := r.JS.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the end of stream %s: %w", name, err)
		}
		if err := r.DB.QueryRow(ctx, readAcked, name).Scan(&end.Recorded); err != nil {
			return nil, fmt.Errorf("reading the position of %s: %w", name, err)
		}
		if end.Last = stream.CachedInfo().State.LastSeq; int64(end.Last) > end.Recorded { //nolint:gosec // a stream's sequence
			ahead = append(ahead, end)
		}
	}
	return ahead, nil
}
