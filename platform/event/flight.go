package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Messages without an answer at one time. More gained nothing when measured.
	window = 1_024
	// A server that is there answers in milliseconds, a syncing disk in a second.
	ackWithin = 10 * time.Second
)

// flight is a batch that is being published. Each message states the sequence of the stream that it must
// follow. If one fails, the server rejects those after it, so the stream never contains an event before
// an earlier one. A relay that has lost its lead without noticing cannot insert an event out of order,
// for the same reason.
type flight struct {
	acks     []jetstream.PubAckFuture
	done     int    // answered, from the first on
	stored   uint64 // of those, new to the stream
	err      error  // the answer that ended it
	rejected error  // why the client did not send the next one
}

// send publishes a batch without waiting for each acknowledgement. At most window messages are
// unacknowledged. It stops at the first error, because the server would reject the messages after
// it.
func (t *term) send(ctx context.Context, l *line, batch []Event) *flight {
	f := &flight{acks: make([]jetstream.PubAckFuture, 0, len(batch))}
	timer := time.NewTimer(ackWithin)
	defer timer.Stop()
	for i, e := range batch {
		if i-f.done >= window && !f.await(ctx, timer) {
			return f
		}
		expected := l.last
		if l.chained {
			expected += uint64(i)
		}
		msg, err := t.relay.message(e, l.stream, expected)
		if err != nil {
			f.rejected = err
			return f
		}
		ack, err := t.relay.JS.PublishMsgAsync(msg)
		if err != nil {
			f.rejected = err
			return f
		}
		f.acks = append(f.acks, ack)
	}
	return f
}

// land waits for the answers. It returns how many of the batch, from the first
// on, the stream has, and why not more.
func (f *flight) land(ctx context.Context, l *line) (done int, cause error) {
	timer := time.NewTimer(ackWithin)
	defer timer.Stop()
	for f.err == nil && f.done < len(f.acks) {
		f.await(ctx, timer)
	}
	l.last += f.stored
	if f.done > 0 {
		// After a crash, the already published messages form a sequence, and the new ones follow each
		// other.
		l.chained = f.stored > 0
	}
	if f.err != nil {
		return f.done, f.err
	}
	return f.done, f.rejected
}

// await receives the oldest missing acknowledgement, and reports whether it was positive.
func (f *flight) await(ctx context.Context, timer *time.Timer) bool {
	timer.Reset(ackWithin)
	ack := f.acks[f.done]
	select {
	case a := <-ack.Ok():
		f.done++
		if !a.Duplicate {
			f.stored++
		}
		return true
	case f.err = <-ack.Err():
	case <-timer.C:
		f.err = errNoAnswer
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	return false
}

var errNoAnswer = errors.New("NATS did not respond")

func (r *Relay) message(e Event, stream string, expected uint64) (*nats.Msg, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	var about struct {
		URN string `json:"urn"`
	}
	if err := json.Unmarshal(e.Payload, &about); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	h := headerOf(r.Environment, e, stream, about.URN)
	h[nats.ExpectedLastSeqHdr] = []string{strconv.FormatUint(expected, 10)}
	return &nats.Msg{Subject: e.Type, Header: h, Data: data}, nil
}
