package consume

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Store has the operations of operators. It requests retries and replays; the workers and the relay run them.
type Store struct {
	DB     pg.Pool
	Naming ids.Naming
	// Once are the consumers whose effect is stored once for each event, so that a repetition changes nothing.
	Once []string
}

// DeadLetter is an event that a consumer or the relay has given up.
type DeadLetter struct {
	ID         uuid.UUID
	Consumer   string
	Event      uuid.UUID
	Stream     string
	Subject    string
	Error      string
	Attempts   int
	CreatedAt  time.Time
	FailedAt   time.Time
	DeadAt     *time.Time
	RetryAt    *time.Time
	ResolvedAt *time.Time
	Resolution string // retried | discarded
	ResolvedBy string
	Reason     string
}

// Filter selects dead letters. An empty field matches all.
type Filter struct {
	Consumer, Stream, Subject string
	IDs                       []uuid.UUID
}

// DeadLetters lists dead letters, the newest first, after an id.
func (s *Store) DeadLetters(ctx context.Context, f Filter, resolved bool, after uuid.UUID, limit int) ([]DeadLetter, error) {
	if after == uuid.Nil {
		after = uuid.Max
	}
	return pg.List(ctx, s.DB, "dead letters", selectLetters, pgx.RowToStructByPos[DeadLetter], f.Consumer, f.Stream, f.Subject, resolved, after, limit)
}

// DeadLetter returns a dead letter with its event; the event is zero if the outbox does not have it.
func (s *Store) DeadLetter(ctx context.Context, id uuid.UUID) (DeadLetter, event.Event, error) {
	d, err := pg.One(ctx, s.DB, "dead letter", selectLetter, pgx.RowToStructByPos[DeadLetter], id)
	if err != nil {
		return d, event.Event{}, err
	}
	e, err := event.Get(ctx, s.DB, ids.From[ids.Event](d.Event))
	if errs.CodeOf(err) == errs.NotFound {
		err = nil
	}
	return d, e, err
}

// maxChosen limits the dead letters of one request.
const maxChosen = 1_000

// Retry requests a further attempt for dead letters, and returns their ids and the statements.
func (s *Store) Retry(ctx context.Context, f Filter, by audit.By, reason string) ([]uuid.UUID, func(*pgx.Batch), error) {
	return s.decide(ctx, f, by, reason, requestRetries, "dead_letter.retry")
}

// Discard resolves dead letters without an effect. Their consumers never process the events.
func (s *Store) Discard(ctx context.Context, f Filter, by audit.By, reason string) ([]uuid.UUID, func(*pgx.Batch), error) {
	return s.decide(ctx, f, by, reason, discardLetters, "dead_letter.discard")
}

func (s *Store) decide(ctx context.Context, f Filter, by audit.By, reason, sql, action string) ([]uuid.UUID, func(*pgx.Batch), error) {
	chosen, err := pg.List(ctx, s.DB, "dead letters", selectChosen, pgx.RowTo[uuid.UUID], f.Consumer, f.Stream, f.Subject, f.IDs, maxChosen)
	if err != nil {
		return nil, nil, err
	}
	if len(chosen) == 0 {
		return nil, nil, errs.New(errs.NotFound, "no unresolved dead letter matches").Try("list dead letters with gpuaas events dead-letters")
	}
	return chosen, func(b *pgx.Batch) {
		b.Queue(sql, chosen, by.Actor, reason)
		for _, id := range chosen {
			audit.Queue(b, audit.Entry{By: by, Action: action, Target: s.Naming.Name("", "", "dead-letter", id.String()).String(), After: map[string]any{"reason": reason}})
		}
	}, nil
}

// Replay is the request that a consumer processes stored events again.
type Replay struct {
	ID       uuid.UUID
	Consumer string
	Events   []uuid.UUID // empty: by time and position
	From, To *time.Time
	After    ids.Event // only events after this one
	// Repeat runs the effect again for events that the consumer has processed.
	Repeat bool
	Reason string
}

// RequestReplay returns the request with its id, and the statements.
func (s *Store) RequestReplay(ctx context.Context, r Replay, by audit.By) (Replay, func(*pgx.Batch), error) {
	stream, err := pg.One(ctx, s.DB, "consumer", selectConsumer, pgx.RowTo[string], r.Consumer)
	if err != nil {
		return r, nil, err
	}
	if stream == event.StreamDLQ {
		return r, nil, errs.Invalid("name", "is a consumer of dead letters, which are not in the outbox: retry them")
	}
	if r.Repeat && slices.Contains(s.Once, r.Consumer) {
		return r, nil, errs.Invalid("repeat", "has no effect for %s, which stores each delivery once", r.Consumer).Try("replay the deliveries of a webhook: gpuaas webhook replay NAME --all --from TIME")
	}
	at := event.Position{}
	if r.After != (ids.Event{}) {
		e, err := event.Get(ctx, s.DB, r.After)
		if err != nil {
			return r, nil, err
		}
		at = e.Position
	}
	r.ID = uuid.Must(uuid.NewV7())
	return r, func(b *pgx.Batch) {
		b.Queue(insertReplay, r.ID, r.Consumer, r.Events, r.From, r.To, at.XID, at.Seq, r.Repeat, by.Actor, r.Reason)
		audit.Queue(b, audit.Entry{
			By: by, Action: "consumer.replay", Target: s.Naming.Name("", "", "consumer", r.Consumer).String(),
			After: map[string]any{"replay_id": r.ID.String(), "events": len(r.Events), "from": r.From, "to": r.To, "repeat": r.Repeat, "reason": r.Reason},
		})
	}, nil
}
