package consume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// State is the state of a consumer, as a worker has last read it from NATS.
type State struct {
	Name        string
	Stream      string
	Epoch       string
	Pending     int64 // events that are not processed
	Redelivered int64 // of these, delivered more than once
	OldestAt    *time.Time
	Lag         time.Duration // since then
	CheckedAt   time.Time
}

// storeState stores the position of a consumer: the oldest event that it has not processed must stay stored.
func (r *Runner) storeState(ctx context.Context, c Consumer, stream jetstream.Stream, info *jetstream.ConsumerInfo) error {
	var oldest *time.Time
	pending := int64(info.NumPending) + int64(info.NumAckPending) //nolint:gosec // messages of a stream
	if pending > 0 {
		at, err := oldestAfter(ctx, stream, c.Subjects, info.AckFloor.Stream)
		if err != nil {
			return err
		}
		oldest = at
	}
	if _, err := r.DB.Exec(ctx, putState, c.Name, c.Stream, info.Config.Metadata[event.EpochKey], pending, info.NumRedelivered, oldest); err != nil {
		return fmt.Errorf("storing the state of consumer %s: %w", c.Name, err)
	}
	return nil
}

// oldestAfter returns the time of the first message of the subjects after a place, or nil. All messages up to
// the place are acknowledged, and the first one after it is not.
func oldestAfter(ctx context.Context, stream jetstream.Stream, subjects []string, after uint64) (oldest *time.Time, err error) {
	for _, subject := range subjects {
		msg, err := stream.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the oldest pending event: %w", err)
		}
		at := msg.Time
		if occurred, err := time.Parse(time.RFC3339Nano, msg.Header.Get("ce-time")); err == nil {
			at = occurred // a stream that was filled again contains old events as new messages
		}
		if oldest == nil || at.Before(*oldest) {
			oldest = &at
		}
	}
	return oldest, nil
}

// register stores the first start of new consumers, and ends what belongs to consumers that do not exist any more.
func (r *Runner) register(ctx context.Context) error {
	b := &pgx.Batch{}
	for _, c := range r.Consumers {
		b.Queue(insertState, c.Name, c.Stream)
	}
	b.Queue(deleteStates, r.names())
	b.Queue(endReplays)
	if err := r.DB.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("registering the consumers: %w", err)
	}
	return nil
}

// States lists the consumers by name, after a name.
func States(ctx context.Context, q pg.Queryer, after string, limit int) ([]State, error) {
	return pg.List(ctx, q, "consumers", selectStates, pgx.RowToStructByPos[State], after, limit)
}
