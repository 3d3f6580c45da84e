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
	// replaySize limits the events of one transaction of a replay.
	replaySize = 20
	// requestsEvery is the delay of a request whose hint was lost.
	requestsEvery = 5 * time.Second
)

// serveRequests runs the retries and replays that operators have requested. The rows are locked, so that
// any number of processes may serve them.
func (r *Runner) serveRequests(ctx context.Context) {
	wake, stop := r.Hints.Listen(Topic)
	defer stop()
	for ctx.Err() == nil {
		retried, retryErr := r.retryOne(ctx)
		replayed, replayErr := r.replaySome(ctx)
		err := errors.Join(retryErr, replayErr)
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
// its aggregate: the operator has decided that the effect is still wanted.
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
		_, err = r.repeat(ctx, tx, r.byName(name), id, false)
		return err
	})
	return found, err
}

// repeat runs the effect of a stored event, again if the operator has requested that. A failure of the effect
// becomes a dead letter at once, and does not end the transaction.
func (r *Runner) repeat(ctx context.Context, tx pgx.Tx, c Consumer, id ids.Event, again bool) (effect bool, err error) {
	subject := ""
	cause := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		e, err := find(ctx, tx, c, id)
		if err != nil {
			return err
		}
		subject = e.Type
		first, _, err := mark(ctx, tx, c, id, e, true)
		if err != nil {
			return err
		}
		if first || again {
			effect = true
			return apply(ctx, tx, c, e)
		}
		return nil
	})
	if cause == nil {
		return effect, nil
	}
	r.Metrics.failed(c.Name)
	if _, err := tx.Exec(ctx, countFailure, uuid.Must(uuid.NewV7()), c.Name, id.UUID, c.Stream, subject, cause.Error(), 1); err != nil {
		return false, fmt.Errorf("counting a failure: %w", err)
	}
	return false, nil
}

// replaySome processes the next events of a replay.
func (r *Runner) replaySome(ctx context.Context) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, effectWithin)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		var replay uuid.UUID
		var name string
		var again bool
		var at event.Position
		err := tx.QueryRow(ctx, lockReplay, r.names()).Scan(&replay, &name, &at.XID, &at.Seq, &again)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("finding a replay: %w", err)
		}
		found = true
		return r.replay(ctx, tx, replay, r.byName(name), at, again)
	})
	return found, err
}

func (r *Runner) replay(ctx context.Context, tx pgx.Tx, replay uuid.UUID, c Consumer, at event.Position, again bool) error {
	type place struct {
		id ids.Event
		event.Position
	}
	events, err := pg.List(ctx, tx, "events to replay", selectReplayed, func(row pgx.CollectableRow) (p place, err error) {
		return p, row.Scan(&p.id.UUID, &p.XID, &p.Seq)
	}, replay, c.Stream, c.Subjects, replaySize)
	if err != nil {
		return err
	}
	effects := 0
	for _, e := range events {
		effect, err := r.repeat(ctx, tx, c, e.id, again)
		if err != nil {
			return err
		}
		if effect {
			effects++
		}
		at = e.Position
	}
	if _, err := tx.Exec(ctx, moveReplay, replay, at.XID, at.Seq, len(events), effects, len(events) < replaySize); err != nil {
		return fmt.Errorf("moving a replay: %w", err)
	}
	return nil
}
