package consume

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
)

// operator is a bundle with a consumer that fails while broken, and the operations with the rights of the API.
type operator struct {
	*bundle

	store  *Store
	broken atomic.Bool
	by     audit.By
}

func operate(t *testing.T) *operator {
	t.Helper()
	o := &operator{bundle: setup(t), by: audit.By{Actor: "user:op"}}
	api := pgtest.Scoped(t, o.db)
	o.store = &Store{DB: api, Naming: ids.DefaultNaming}
	c := consumer()
	c.Effect = func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		if o.broken.Load() {
			return nil, errors.New("broken")
		}
		return record(c.Name)(ctx, tx, e)
	}
	o.broken.Store(true)
	o.run(c)
	return o
}

func (o *operator) ctx() context.Context { return pg.WithScope(o.t.Context(), pg.Platform) }

// commit runs the statements of a request as the API does.
func (o *operator) commit(queue func(*pgx.Batch), err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	err = pgx.BeginFunc(o.ctx(), o.store.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		queue(b)
		return tx.SendBatch(o.ctx(), b).Close()
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.hints.Send(Topic)
}

// dead returns events that have become dead letters.
func (o *operator) dead(n int) []event.Draft {
	o.t.Helper()
	var sequences []int64
	for i := range n {
		sequences = append(sequences, int64(i+1))
	}
	all := o.emit("a", sequences...)
	o.publish(all...)
	o.eventually("dead letters", func() bool { return o.count(`SELECT count(*) FROM dead_letters WHERE dead_at IS NOT NULL`) == n })
	return all
}

func TestRetryRunsTheEffectOnce(t *testing.T) {
	t.Parallel()
	o := operate(t)
	o.dead(3)
	list, err := o.store.DeadLetters(o.ctx(), Filter{Consumer: "notification_relay_test"}, false, uuid.Nil, 2)
	if err != nil || len(list) != 2 || list[0].Error != "broken" || list[0].Attempts != 10 {
		t.Fatalf("%+v, %v", list, err)
	}
	d, e, err := o.store.DeadLetter(o.ctx(), list[0].ID)
	if err != nil || d.Event != e.ID.UUID || e.Type != subject {
		t.Errorf("%+v, %+v, %v", d, e, err)
	}

	// Still broken: it stays a dead letter, with one attempt more.
	chosen, queue, err := o.store.Retry(o.ctx(), Filter{IDs: []uuid.UUID{d.ID}}, o.by, "the template was corrected")
	if len(chosen) != 1 {
		t.Errorf("%d chosen", len(chosen))
	}
	o.commit(queue, err)
	o.eventually("one more attempt", func() bool {
		return o.count(`SELECT count(*) FROM dead_letters WHERE attempts = 11 AND retry_at IS NULL AND resolved_at IS NULL`) == 1
	})

	// Corrected: all in bulk, also those that are older than the last event of their aggregate.
	o.broken.Store(false)
	o.publish(o.emit("a", 9)...)
	o.eventually("a later event", func() bool { return o.count(`SELECT count(*) FROM effects WHERE sequence = 9`) == 1 })
	_, queue, err = o.store.Retry(o.ctx(), Filter{Stream: event.StreamProvisioning, Subject: subject}, o.by, "the template was corrected")
	o.commit(queue, err)
	o.eventually("all are resolved", func() bool {
		return o.count(`SELECT count(*) FROM dead_letters WHERE resolution = 'retried' AND resolved_by = 'user:op'`) == 3
	})
	if n := o.count(`SELECT count(*) FROM effects`); n != 4 {
		t.Errorf("%d effects", n)
	}
	if n := o.count(`SELECT count(*) FROM audit_logs WHERE action = 'dead_letter.retry' AND actor = 'user:op' AND target_urn LIKE '%:dead-letter:%'`); n != 4 {
		t.Errorf("%d audit rows", n)
	}
	_, _, err = o.store.Retry(o.ctx(), Filter{}, o.by, "again")
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("nothing to retry: %v", err)
	}
}

// A discarded event has no effect, also when the stream is filled again.
func TestDiscardEndsAnEvent(t *testing.T) {
	t.Parallel()
	o := operate(t)
	all := o.dead(2)
	_, queue, err := o.store.Discard(o.ctx(), Filter{}, o.by, "no longer wanted")
	o.commit(queue, err)
	if n := o.count(`SELECT count(*) FROM dead_letters WHERE resolution = 'discarded' AND reason = 'no longer wanted'`); n != 2 {
		t.Errorf("%d are discarded", n)
	}
	o.broken.Store(false)
	o.wipe("notification_relay_test", true)
	o.publish(append(all, o.emit("b", 1)...)...)
	o.eventually("the other event", func() bool { return o.count(`SELECT count(*) FROM effects WHERE aggregate = 'b'`) == 1 })
	o.idle("notification_relay_test", event.StreamProvisioning)
	if n := o.count(`SELECT count(*) FROM effects WHERE aggregate = 'a'`); n != 0 {
		t.Errorf("%d effects of discarded events", n)
	}
	list, err := o.store.DeadLetters(o.ctx(), Filter{}, true, uuid.Nil, 10)
	if err != nil || len(list) != 2 {
		t.Errorf("%d resolved ones, %v", len(list), err)
	}
}

func (o *operator) replay(r Replay) {
	o.t.Helper()
	r.Consumer, r.Reason = "notification_relay_test", "a test"
	_, queue, err := o.store.RequestReplay(o.ctx(), r, o.by)
	o.commit(queue, err)
	o.eventually("the replay ends", func() bool { return o.count(`SELECT count(*) FROM event_replays WHERE done_at IS NULL`) == 0 })
}

// A replay has effects for events that were not processed, and for all others only on request.
func TestReplay(t *testing.T) {
	t.Parallel()
	o := operate(t)
	o.broken.Store(false)
	var sequences []int64
	for n := range int64(45) {
		sequences = append(sequences, n+1)
	}
	all := o.emit("a", sequences...)
	o.publish(all[:30]...)
	effects := func(want int, what string) {
		t.Helper()
		o.eventually(what, func() bool { return o.count(`SELECT count(*) FROM effects`) >= want })
		if n := o.count(`SELECT count(*) FROM effects`); n != want {
			t.Errorf("%s: %d effects, expected %d", what, n, want)
		}
	}
	effects(30, "published")
	o.eventually("the consumer is known", func() bool { return o.count(`SELECT count(*) FROM event_consumers`) == 1 })
	o.replay(Replay{})
	effects(45, "the missing ones, in three batches")
	o.replay(Replay{})
	effects(45, "none is missing")
	o.replay(Replay{Events: []uuid.UUID{all[0].ID.UUID, all[7].ID.UUID}, Repeat: true})
	effects(47, "by ids")
	o.replay(Replay{After: all[39].ID, Repeat: true})
	effects(52, "after a position")
	past := time.Now().Add(-time.Hour)
	o.replay(Replay{To: &past, Repeat: true})
	effects(52, "nothing happened before")
	o.broken.Store(true)
	o.replay(Replay{Events: []uuid.UUID{all[0].ID.UUID}, Repeat: true})
	if n := o.count(`SELECT count(*) FROM dead_letters WHERE dead_at IS NOT NULL AND attempts = 1`); n != 1 {
		t.Errorf("a failed replay has %d dead letters", n)
	}
	// Its retry runs the effect, although the first one succeeded.
	o.broken.Store(false)
	_, queue, err := o.store.Retry(o.ctx(), Filter{}, o.by, "the cause was corrected")
	o.commit(queue, err)
	o.eventually("the letter is resolved", func() bool { return o.count(`SELECT count(*) FROM dead_letters WHERE resolution = 'retried'`) == 1 })
	effects(53, "a retried repetition")
	if n := o.count(`SELECT count(*) FROM audit_logs WHERE action = 'consumer.replay'`); n != 6 {
		t.Errorf("%d audit rows", n)
	}
	_, _, err = o.store.RequestReplay(o.ctx(), Replay{Consumer: "unknown"}, o.by)
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("an unknown consumer: %v", err)
	}
	o.exec(`INSERT INTO event_consumers (name, stream, epoch, pending, redelivered) VALUES ('ops_dlq', 'DLQ', '', 0, 0)`)
	if _, _, err = o.store.RequestReplay(o.ctx(), Replay{Consumer: "ops_dlq"}, o.by); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("a consumer of dead letters: %v", err)
	}
}

// A dead letter that a newer event of its aggregate has replaced stays one when its stream is filled again, until an
// operator retries it.
func TestAReplacedDeadLetterWaitsForItsRetry(t *testing.T) {
	t.Parallel()
	o := operate(t)
	all := o.dead(1)
	o.broken.Store(false)
	o.publish(o.emit("a", 2)...)
	o.eventually("the newer event", func() bool { return o.count(`SELECT count(*) FROM effects`) == 1 })
	o.wipe("notification_relay_test", true)
	o.publish(append(all, o.emit("b", 1)...)...)
	o.eventually("a later event", func() bool { return o.count(`SELECT count(*) FROM effects WHERE aggregate = 'b'`) == 1 })
	o.idle("notification_relay_test", event.StreamProvisioning)
	if n := o.count(`SELECT count(*) FROM dead_letters WHERE resolved_at IS NULL`); n != 1 || o.count(`SELECT count(*) FROM effects`) != 2 {
		t.Errorf("%d unresolved dead letters", n)
	}
	_, queue, err := o.store.Retry(o.ctx(), Filter{}, o.by, "still wanted")
	o.commit(queue, err)
	o.eventually("its effect", func() bool {
		return o.count(`SELECT count(*) FROM effects WHERE sequence = 1 AND aggregate = 'a'`) == 1
	})
}

// A replay reads a bounded number of events at a time, so that a rare subject among many others ends.
func TestAReplayOfARareSubjectEnds(t *testing.T) {
	t.Parallel()
	o := operate(t)
	o.broken.Store(false)
	o.eventually("the consumer is known", func() bool { return o.count(`SELECT count(*) FROM event_consumers`) == 1 })
	o.exec(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, payload)
		SELECT gen_random_uuid(), 'PROVISIONING', 'provisioning.active', 'x' || n, 1, '{}' FROM generate_series(1, 4100) n`)
	rare := o.emit("a", 1)[0]
	o.replay(Replay{})
	if n := o.count(`SELECT count(*) FROM effects WHERE event_id = $1`, rare.ID.UUID); n != 1 {
		t.Errorf("%d effects", n)
	}
	if n := o.count(`SELECT count(*) FROM event_replays WHERE events = 1 AND effects = 1`); n != 1 {
		t.Error("the replay counts events that it did not choose")
	}
}

// A replay waits for an event that an older open transaction hides from it.
func TestAReplayWaitsForTheHorizon(t *testing.T) {
	t.Parallel()
	o := operate(t)
	o.broken.Store(false)
	o.eventually("the consumer is registered", func() bool { return o.count(`SELECT count(*) FROM event_consumers`) == 1 })
	older, err := o.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := older.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	o.emit("a", 1)
	_, queue, err := o.store.RequestReplay(o.ctx(), Replay{Consumer: "notification_relay_test", Reason: "a test"}, o.by)
	o.commit(queue, err)
	time.Sleep(10 * requestsEvery)
	if n := o.count(`SELECT count(*) FROM event_replays WHERE done_at IS NOT NULL`); n != 0 {
		t.Error("the replay ended without the event")
	}
	if err := older.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.eventually("the effect", func() bool { return o.count(`SELECT count(*) FROM effects`) == 1 })
}

// An effect that does not end becomes a dead letter, and the next requests are served.
func TestAnEffectWithoutAnEndStopsNoRequest(t *testing.T) {
	t.Parallel()
	o := &operator{bundle: setup(t), by: audit.By{Actor: "user:op"}}
	o.store = &Store{DB: pgtest.Scoped(t, o.db), Naming: ids.DefaultNaming}
	c := consumer()
	c.Effect = func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		if e.Sequence == 2 {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return nil, err
		}
		return record(c.Name)(ctx, tx, e)
	}
	o.run(c)
	o.eventually("the consumer is known", func() bool { return o.count(`SELECT count(*) FROM event_consumers`) == 1 })
	o.emit("a", 1, 2, 3)
	o.replay(Replay{})
	if n := o.count(`SELECT count(*) FROM effects WHERE sequence IN (1, 3)`); n != 2 {
		t.Errorf("%d effects", n)
	}
	if n := o.count(`SELECT count(*) FROM dead_letters WHERE dead_at IS NOT NULL AND resolved_at IS NULL`); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}
