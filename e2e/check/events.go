package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Event is one event of the outbox.
type Event struct {
	Stream, ID, Aggregate string
	Sequence              int64
}

// Outbox reads all events, sorted by the time at which they became visible to the relay.
func Outbox(ctx context.Context, db *pgx.Conn) ([]Event, error) {
	rows, err := db.Query(ctx, `SELECT stream, event_id::text, aggregate, sequence FROM outbox_events ORDER BY xid, seq`)
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
}

// Streams compares the event streams with the outbox. Each stream must contain every event of the
// outbox once and in the same sequence.
func Streams(ctx context.Context, nc *nats.Conn, want []Event) (found []Finding, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	byStream := map[string][]Event{}
	for _, f := range want {
		byStream[f.Stream] = append(byStream[f.Stream], f)
	}
	for name, facts := range byStream {
		got, err := read(ctx, js, name)
		if err != nil {
			return nil, err
		}
		found = append(found, compare(name, facts, got)...)
	}
	return found, nil
}

func read(ctx context.Context, js jetstream.JetStream, name string) (ids []string, err error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening stream %s: %w", name, err)
	}
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		ids = append(ids, m.Header.Get(nats.MsgIdHdr))
	}
	return ids, nil
}

func compare(stream string, want []Event, got []string) (found []Finding) {
	say := func(promise, format string, args ...any) {
		found = append(found, Finding{promise, stream + ": " + fmt.Sprintf(format, args...)})
	}
	at := map[string]int{}
	for i, id := range got {
		if _, twice := at[id]; twice {
			say("INV-24 an event is delivered once", "%s is there twice", id)
		}
		at[id] = i
	}
	last := -1
	for _, f := range want {
		i, ok := at[f.ID]
		switch {
		case !ok:
			say("INV-24 no event is lost", "%s %d (%s) is missing", f.Aggregate, f.Sequence, f.ID)
		case i < last:
			say("INV-24 events arrive in order", "%s %d arrives too early", f.Aggregate, f.Sequence)
		default:
			last = i
		}
	}
	if len(got) > len(want) {
		say("INV-23 no fact without its row", "%d messages for %d facts", len(got), len(want))
	}
	return found
}
