package consume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Topic is the hint to send after an operator has requested a retry or a replay.
const Topic = "event.requests"

const (
	// replaySize limits the events that one transaction of a replay processes, and replayReads those that it reads.
	replaySize  = 20
	replayReads = 2_000
)

// requestsEvery is the delay of a request whose hint was lost. It is a variable for tests.
var requestsEvery = 5 * time.Second

// serveRequests runs the retries and replays that operators have requested. The rows are locked, so that
// any number of processes may serve them.
func (r *Runner) serveRequests(ctx context.Context) {
	wake, stop := r.Hints.Listen(Topic)
	defer stop()
	for ctx.Err() == nil {
		retried, retryErr := r.retryOne(ctx)
		replayed, replayErr := r.replaySome(ctx)
		err := errors.Join(r.countApart(ctx, retryErr), r.countApart(ctx, replayErr))
		if err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "a request about events pauses", "component", "consume", "err", err)
		}
		if err != nil || !retried && !replayed {
			sleep(ctx, wake, requestsEvery)
		}
	}
}

func (r *Runner) names() (all []string) {
	for _, c := range r.Consumers {
		all = append(all, c.Name)
	}
	return all
}

func (r *Runner) byName(name string) Consumer {
	for _, c := range r.Consumers {
		if c.Name == name {
			return c
		}
	}
	return Consumer{}
}

// retryOne processes one dead letter whose retry was requested. Its event may be older than the last one of
// its aggregate, and an earlier effect of it may have succeeded: the operator has decided that it is wanted.
func (r *Runner) retryOne(ctx context.Context) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, effectWithin)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		var name string
		var id ids.Event
		err := tx.QueryRow(ctx, lockRetry, r.names()).Scan(&name, &id.UUID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("finding a retry: %w", err)
		}
		found = true
		_, err = r.repeat(ctx, tx, r.byName(name), id, asRepeated)
		return err
	})
	return found, err
}

// failure is a failed effect that its transaction could not count, because it ended with the effect.
type failure struct {
	consumer Consumer
	id       ids.Event
	subject  string
	cause    error
}

func (f *failure) Error() string { return f.cause.Error() }

// countApart counts a failure in a transaction of its own, so that the same event does not stop the next requests.
func (r *Runner) countApart(ctx context.Context, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	_, _, err = r.countFailure(ctx, f.consumer, f.id, f.subject, f.cause, 1)
	return err
}

// repeat runs the effect of a stored event as an operator has requested. A failure of the effect becomes a
// dead letter at once, and ends the transaction only if the database has.
func (r *Runner) repeat(ctx context.Context, tx pgx.Tx, c Consumer, id ids.Event, why mode) (effect bool, err error) {
	subject := ""
	cause := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		b, found := &pgx.Batch{}, &marked{}
		c.mark(b, id, why, found)
		err := found.check(c, id, tx.SendBatch(ctx, b).Close())
		subject, effect = found.Type, found.wanted
		if err != nil || !effect {
			return err
		}
		_, err = apply(ctx, tx, c, found.Event)
		return err
	})
	if cause == nil {
		return effect, nil
	}
	r.Metrics.failed(c.Name)
	if _, err := tx.Exec(ctx, countFailure, uuid.Must(uuid.NewV7()), c.Name, id.UUID, c.Stream, subject, cause.Error(), 1); err != nil {
		return false, &failure{c, id, subject, cause}
	}
	return false, nil
}

// replaySome processes the next events of a replay, and reports whether it has moved or ended.
func (r *Runner) replaySome(ctx context.Context) (moved bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, effectWithin)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		var replay uuid.UUID
		var name string
		var again, byID bool
		var at event.Position
		err := tx.QueryRow(ctx, lockReplay, r.names()).Scan(&replay, &name, &at.XID, &at.Seq, &again, &byID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("finding a replay: %w", err)
		}
		why, sql := asRequested, selectReplayed
		if again {
			why = asRepeated
		}
		if byID {
			sql = selectReplayedByID
		}
		moved, err = r.replay(ctx, tx, replay, r.byName(name), at, why, sql)
		return err
	})
	return moved, err
}

// replay processes the next events after a position, and moves the replay.
func (r *Runner) replay(ctx context.Context, tx pgx.Tx, replay uuid.UUID, c Consumer, at event.Position, why mode, sql string) (moved bool, err error) {
	type place struct {
		id ids.Event
		event.Position
		chosen bool
	}
	events, err := pg.List(ctx, tx, "events to replay", sql, func(row pgx.CollectableRow) (p place, err error) {
		err = row.Scan(&p.id.UUID, &p.XID, &p.Seq, &p.chosen)
		return p, err
	}, replay, c.Stream, c.Subjects, replayReads)
	if err != nil {
		return false, err
	}
	processed, effects, done := 0, 0, len(events) < replayReads
	for _, e := range events {
		if e.chosen && processed == replaySize {
			done = false
			break
		}
		if e.chosen {
			effect, err := r.repeat(ctx, tx, c, e.id, why)
			if err != nil {
				return false, err
			}
			processed++
			if effect {
				effects++
			}
		}
		at = e.Position
	}
	if err := tx.QueryRow(ctx, moveReplay, replay, at.XID, at.Seq, processed, effects, done, c.Stream).Scan(&done); err != nil {
		return false, fmt.Errorf("moving a replay: %w", err)
	}
	return len(events) > 0 || done, nil
}
