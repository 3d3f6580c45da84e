package consume

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/platform/event"
)

const subject = "provisioning.requested"

// bundle is a database, NATS in process and a consumer whose effect is a row. The stream has no relay: tests
// publish what they want.
type bundle struct {
	t     *testing.T
	db    *pgxpool.Pool
	nats  *natsd.Server
	js    jetstream.JetStream
	hints *hint.Bus
	epoch int
	last  uint64 // sequence of the lost stream
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, db: pgtest.Clone(t), hints: &hint.Bus{}}
	var err error
	if b.nats, err = natsd.Start(natsd.Config{Dir: t.TempDir(), Listen: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.nats.Stop)
	nc, err := natsd.Dial(b.nats.URL(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if b.js, err = natsd.JetStream(nc); err != nil {
		t.Fatal(err)
	}
	b.exec(`CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, consumer text, event_id uuid, aggregate text, sequence bigint)`)
	b.exec(`GRANT ALL ON effects TO PUBLIC`)
	b.exec(`ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`) // tests emit before they start a consumer
	b.stream(event.StreamProvisioning)
	b.stream(event.StreamDLQ)
	return b
}

// stream creates a stream with a new epoch, as the relay does: its sequences follow those of the lost one.
func (b *bundle) stream(name string) {
	b.t.Helper()
	b.epoch++
	subjects := map[string]string{event.StreamProvisioning: "provisioning.>", event.StreamDLQ: "dlq.>"}
	if _, err := b.js.CreateStream(b.t.Context(), jetstream.StreamConfig{
		Name: name, Subjects: []string{subjects[name]}, Metadata: map[string]string{event.EpochKey: strconv.Itoa(b.epoch)}, FirstSeq: b.last + 1,
	}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) exec(sql string) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (b *bundle) eventually(what string, yes func() bool) {
	b.t.Helper()
	for began := time.Now(); !yes(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > race.Slower*30*time.Second {
			b.t.Fatalf("not in time: %s", what)
		}
	}
}

// record is the effect of the tests.
func record(name string) func(context.Context, pgx.Tx, event.Event) ([]string, error) {
	return func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (consumer, event_id, aggregate, sequence) VALUES ($1, $2, $3, $4)`, name, e.ID.UUID, e.Aggregate, e.Sequence)
		return []string{"effect." + e.Aggregate}, err
	}
}

func consumer() Consumer {
	const name = "notification_relay_test"
	return Consumer{Name: name, Stream: event.StreamProvisioning, Subjects: []string{subject}, Effect: record(name)}
}

// run starts a runner with the rights of a worker.
func (b *bundle) run(consumers ...Consumer) {
	b.t.Helper()
	db := pgtest.As(b.t, b.db, "gpuaas_work")
	r := &Runner{DB: db, JS: b.js, Hints: b.hints, Environment: "test", Consumers: consumers, Metrics: NewMetrics(db, consumers), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

// emit stores events, and returns them with the sequences that they were given.
func (b *bundle) emit(aggregate string, sequences ...int64) (drafts []event.Draft) {
	b.t.Helper()
	batch := &pgx.Batch{}
	for _, n := range sequences {
		d := event.Draft{
			ID: ids.New[ids.Event](), Stream: event.StreamProvisioning, Subject: subject, Aggregate: aggregate, Sequence: n,
			URN: "v:s:-:-:-:allocation:1", Payload: map[string]any{"n": n},
		}
		event.Queue(batch, d)
		drafts = append(drafts, d)
	}
	if err := b.db.SendBatch(b.t.Context(), batch).Close(); err != nil {
		b.t.Fatal(err)
	}
	return drafts
}

// publish sends what the relay would, without the id by which the stream drops duplicates.
func (b *bundle) publish(drafts ...event.Draft) {
	b.t.Helper()
	for _, d := range drafts {
		b.send(d.Subject, d.ID.String(), `{}`)
	}
}

func (b *bundle) send(on, id, body string) {
	b.t.Helper()
	msg := &nats.Msg{Subject: on, Header: nats.Header{"ce-id": {id}}, Data: []byte(body)}
	if _, err := b.js.PublishMsg(b.t.Context(), msg); err != nil {
		b.t.Fatal(err)
	}
}

// idle waits until the consumer of the present epoch has acknowledged the last message. NATS counts pending
// messages some time after their publication.
func (b *bundle) idle(name, stream string) {
	b.t.Helper()
	b.eventually(name+" has processed all", func() bool {
		s, err := b.js.Stream(b.t.Context(), stream)
		if err != nil {
			b.t.Fatal(err)
		}
		c, err := s.Consumer(b.t.Context(), name)
		return err == nil && c.CachedInfo().AckFloor.Stream == s.CachedInfo().State.LastSeq
	})
}

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"inbox", "inbox_heads", "dead_letters", "event_consumers", "event_replays", "outbox_events"}, Statements)
}

// histories is the number of random histories.
func histories(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("GPUAAS_HISTORIES")); err == nil {
		return n
	}
	return 500
}

// INV-26, INV-25: events arrive one to five times, shuffled and late, effects fail before their commit, and the
// stream is lost and filled again. Each event has at most one effect, in the sequence of its aggregate, and the last
// one of each aggregate has one. Without failures the effects are exactly those of the model.
func TestINV26RandomHistoriesEqualTheModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := consumer()
	failing := make(chan int, 1) // how many of the next effects fail
	failing <- 0
	c.Effect = func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		left := <-failing
		failing <- max(left-1, 0)
		if _, err := record(c.Name)(ctx, tx, e); err != nil {
			return nil, err
		}
		if left > 0 {
			return nil, errors.New("killed before the commit")
		}
		return nil, nil
	}
	b.run(c)
	for n := range histories(t) {
		seed := rand.Uint64()
		b.history(c.Name, fmt.Sprintf("history %d of seed %d", n, seed), rand.New(rand.NewPCG(seed, 0)), failing)
		if t.Failed() {
			return
		}
	}
}

func (b *bundle) history(name, what string, r *rand.Rand, failing chan int) {
	b.t.Helper()
	var sent []event.Draft
	last := map[string]int64{}
	for a := range 1 + r.IntN(3) {
		aggregate, at := fmt.Sprintf("%s, aggregate %d", what, a), int64(0)
		var sequences []int64
		for range 1 + r.IntN(4) {
			at += 1 + r.Int64N(3) // with gaps
			sequences = append(sequences, at)
		}
		last[aggregate] = at
		for _, d := range b.emit(aggregate, sequences...) {
			for range 1 + r.IntN(5) {
				sent = append(sent, d)
			}
		}
	}
	r.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	failures := 0
	if r.IntN(4) == 0 {
		failures = 1 + r.IntN(3)
		<-failing
		failing <- failures
	}
	b.publish(sent...)
	if r.IntN(20) == 0 {
		b.wipe(name, r.IntN(2) == 0)
		r.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		b.publish(sent...)
		failures++ // the sequence of the first deliveries is not known
	}
	b.idle(name, event.StreamProvisioning)
	b.compare(what, sent, last, failures == 0)
}

// wipe loses the stream, at once or after its messages were processed.
func (b *bundle) wipe(name string, processed bool) {
	b.t.Helper()
	if processed {
		b.idle(name, event.StreamProvisioning)
	}
	lost, err := b.js.Stream(b.t.Context(), event.StreamProvisioning)
	if err != nil {
		b.t.Fatal(err)
	}
	b.last = lost.CachedInfo().State.LastSeq
	if err := b.js.DeleteStream(b.t.Context(), event.StreamProvisioning); err != nil {
		b.t.Fatal(err)
	}
	b.stream(event.StreamProvisioning)
}

func (b *bundle) compare(what string, sent []event.Draft, last map[string]int64, exact bool) {
	b.t.Helper()
	model, heads := []int64{}, map[string]int64{}
	for _, d := range sent {
		if d.Sequence > heads[d.Aggregate] {
			heads[d.Aggregate] = d.Sequence
			model = append(model, d.Sequence)
		}
	}
	rows, err := b.db.Query(b.t.Context(), `SELECT aggregate, sequence FROM effects WHERE aggregate LIKE $1 || ',%' ORDER BY n`, what)
	if err != nil {
		b.t.Fatal(err)
	}
	got, reached, aggregate, sequence := []int64{}, map[string]int64{}, "", int64(0)
	if _, err := pgx.ForEachRow(rows, []any{&aggregate, &sequence}, func() error {
		if sequence <= reached[aggregate] {
			b.t.Errorf("%s: %s has an effect of %d after %d", what, aggregate, sequence, reached[aggregate])
		}
		reached[aggregate] = sequence
		got = append(got, sequence)
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	for aggregate, want := range last {
		if reached[aggregate] != want {
			b.t.Errorf("%s: %s ends at %d, expected %d", what, aggregate, reached[aggregate], want)
		}
	}
	if exact && fmt.Sprint(got) != fmt.Sprint(model) {
		b.t.Errorf("%s: effects %v, model %v", what, got, model)
	}
	if n := b.count(`SELECT count(*) FROM dead_letters`); n != 0 {
		b.t.Errorf("%s: %d failures remain", what, n)
	}
}

// A stream with a new epoch is consumed from its first message, and the inbox makes that harmless.
func TestINV25AnotherEpochIsConsumedFromTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(consumer())
	first := b.emit("a", 1, 2, 3)
	b.publish(first...)
	b.eventually("three effects", func() bool { return b.count(`SELECT count(*) FROM effects`) == 3 })
	b.idle("notification_relay_test", event.StreamProvisioning)
	changed := time.Now()
	b.epoch++
	lost, err := b.js.Stream(t.Context(), event.StreamProvisioning)
	if err != nil {
		t.Fatal(err)
	}
	config := lost.CachedInfo().Config
	config.Metadata[event.EpochKey] = strconv.Itoa(b.epoch)
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	b.publish(b.emit("b", 1)...)
	b.publish(first...)
	b.eventually("the new event", func() bool { return b.count(`SELECT count(*) FROM effects WHERE aggregate = 'b'`) == 1 })
	b.eventually("the consumer has begun again", func() bool {
		c, err := b.js.Consumer(t.Context(), event.StreamProvisioning, "notification_relay_test")
		return err == nil && c.CachedInfo().Created.After(changed)
	})
	b.idle("notification_relay_test", event.StreamProvisioning)
	if n := b.count(`SELECT count(*) FROM effects`); n != 4 {
		t.Errorf("%d effects", n)
	}
	b.eventually("the state has the epoch", func() bool {
		return b.count(`SELECT count(*) FROM event_consumers WHERE name = 'notification_relay_test' AND epoch = $1 AND pending = 0 AND oldest_at IS NULL`, strconv.Itoa(b.epoch)) == 1
	})
}

// A new consumer has no effect for events from before its first start: an upgrade would notify users of a month again.
func TestANewConsumerBeginsAtItsStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`ALTER TABLE event_consumers ALTER since SET DEFAULT now()`)
	old := b.emit("a", 1)
	b.publish(old...)
	b.run(consumer())
	b.idle("notification_relay_test", event.StreamProvisioning)
	b.publish(b.emit("a", 2)...)
	b.eventually("the new event", func() bool { return b.count(`SELECT count(*) FROM effects WHERE sequence = 2`) == 1 })
	// A new epoch does not change that.
	b.wipe("notification_relay_test", true)
	b.publish(old...)
	b.idle("notification_relay_test", event.StreamProvisioning)
	if n := b.count(`SELECT count(*) FROM effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
	if n := b.count(`SELECT count(*) FROM inbox`); n != 1 {
		t.Errorf("%d events are marked as processed", n)
	}
}

// A worker of another release does not end the consumers of this one, and an unknown consumer processes nothing.
func TestConsumersOutliveAnotherRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := pgtest.As(t, b.db, "gpuaas_work")
	b.exec(`INSERT INTO event_consumers (name, stream, epoch, pending, redelivered, checked_at)
		VALUES ('newer', 'BILLING', '', 0, 0, now()), ('ended', 'BILLING', '', 0, 0, now() - interval '25 hours')`)
	b.exec(`INSERT INTO event_replays (id, consumer, repeat, actor, reason) SELECT gen_random_uuid(), c, false, 'user:op', 'a test' FROM unnest(ARRAY['newer', 'ended']) AS c`)
	r := &Runner{DB: db, Consumers: []Consumer{consumer()}}
	if err := r.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM event_consumers WHERE name IN ('newer', $1)`, consumer().Name); n != 2 || b.count(`SELECT count(*) FROM event_consumers`) != 2 {
		t.Errorf("%d consumers are left", n)
	}
	if n := b.count(`SELECT count(*) FROM event_replays WHERE (consumer = 'ended') = (done_at IS NOT NULL)`); n != 2 {
		t.Errorf("%d replays are as expected", n)
	}
	b.exec(`DELETE FROM event_consumers`)
	e := b.emit("a", 1)[0]
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		batch, found := &pgx.Batch{}, &marked{}
		consumer().mark(batch, e.ID, asPublished, found)
		return found.check(consumer(), e.ID, tx.SendBatch(t.Context(), batch).Close())
	})
	if err == nil || b.count(`SELECT count(*) FROM inbox`) != 0 {
		t.Errorf("an unknown consumer: %v", err)
	}
}

// A consumer without events compares the epochs in every interval, and logs nothing.
func TestAnIdleConsumerLogsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	db := pgtest.As(t, b.db, "gpuaas_work")
	var all []Consumer
	for n := range 20 {
		c := consumer()
		c.Name = fmt.Sprint("notification_relay_", n)
		all = append(all, c)
	}
	r := &Runner{DB: db, JS: b.js, Hints: b.hints, Environment: "test", Consumers: all, Metrics: NewMetrics(db, all), Log: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithTimeout(t.Context(), 40*checkEvery)
	defer cancel()
	if err := r.Run(ctx); err != nil || strings.Contains(log.String(), "invalid jetstream option") {
		t.Errorf("%v\n%.1000s", err, log.String())
	}
}

// Two replicas share a consumer.
func TestReplicasShareAConsumer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(consumer())
	b.run(consumer())
	var all []event.Draft
	for n := range 50 {
		all = append(all, b.emit(fmt.Sprint("aggregate ", n), 1)...)
	}
	b.publish(append(all, all...)...)
	b.eventually("all effects", func() bool { return b.count(`SELECT count(*) FROM effects`) >= len(all) })
	b.idle("notification_relay_test", event.StreamProvisioning)
	if n := b.count(`SELECT count(*) FROM effects`); n != len(all) {
		t.Errorf("%d effects of %d events", n, len(all))
	}
}

// INV-28: hostile messages and events whose effect always fails become dead letters after ten attempts, with a
// message in the dead-letter stream. The others are processed meanwhile.
func TestINV28PoisonBecomesADeadLetterAndOthersFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	attempts := make(chan string, 1000)
	c := consumer()
	c.Effect = func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		attempts <- e.Aggregate
		switch e.Aggregate {
		case "poison":
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return nil, err
		case "panic":
			panic("a template without its field")
		}
		return record(c.Name)(ctx, tx, e)
	}
	ops := Consumer{Name: "ops_dlq", Stream: event.StreamDLQ, Subjects: []string{"dlq.>"}, Effect: record("ops_dlq"), Unordered: true}
	b.run(c, ops)

	other := event.Draft{ID: ids.New[ids.Event](), Stream: event.StreamProvisioning, Subject: "provisioning.active", Aggregate: "o", Sequence: 1, Payload: map[string]any{}}
	batch := &pgx.Batch{}
	event.Queue(batch, other)
	if err := b.db.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	b.publish(b.emit("poison", 1)...)
	b.publish(b.emit("panic", 1)...)
	unknown := ids.New[ids.Event]().String()
	for _, hostile := range []struct{ id, body string }{
		{unknown, `{"version": "9.0"}`},        // no such event
		{"not an id", `{`},                     // no event at all
		{"", string(make([]byte, 900<<10))},    // nearly the limit of NATS
		{other.ID.String(), `{"payload": {}}`}, // an event of another subject
	} {
		b.send(subject, hostile.id, hostile.body)
	}
	good := b.emit("good", 1, 2, 3)
	// What a message states besides the id has no effect: unknown fields, another version, another aggregate.
	for _, d := range good {
		b.send(subject, d.ID.String(), `{"event_id": "`+unknown+`", "version": "7", "surprise": [1], "payload": {"tenant_id": "x"}}`)
	}
	b.eventually("the good ones", func() bool { return b.count(`SELECT count(*) FROM effects WHERE aggregate = 'good'`) == 3 })
	b.eventually("six dead letters", func() bool { return b.count(`SELECT count(*) FROM dead_letters WHERE dead_at IS NOT NULL`) == 6 })
	b.idle(c.Name, event.StreamProvisioning)
	if n := b.count(`SELECT count(*) FROM dead_letters WHERE attempts <> 10 OR resolved_at IS NOT NULL OR consumer <> $1`, c.Name); n != 0 {
		t.Errorf("%d dead letters have another number of attempts", n)
	}
	tries := map[string]int{}
	for len(attempts) > 0 {
		tries[<-attempts]++
	}
	if tries["poison"] != 10 || tries["panic"] != 10 || tries["good"] != 3 {
		t.Errorf("attempts %v", tries)
	}
	b.eventually("operators are notified of each", func() bool { return b.count(`SELECT count(*) FROM effects WHERE consumer = 'ops_dlq'`) == 6 })
	b.deadLettersFitTheStream()
}

// INV-28: one percent of the events fails in all attempts, and the others are processed at nearly the same rate. A consumer
// that waited for the pauses between the attempts would need several times as long.
func TestINV28PoisonDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var slowest []string
	for run := range 3 { // another test may use the computer in one run
		without, with := b.p99(fmt.Sprint("without", run), 0), b.p99(fmt.Sprint("with", run), 100)
		if with < 2*without {
			return
		}
		slowest = append(slowest, fmt.Sprint(without, " without and ", with, " with poison"))
	}
	t.Errorf("p99: %q", slowest)
}

// p99 returns the duration in which a new consumer has processed 99 % of 495 good events. Each n-th of all is poison.
func (b *bundle) p99(name string, n int) time.Duration {
	b.t.Helper()
	const events = 500
	processed := make(chan struct{}, events)
	c := consumer()
	c.Name, c.Subjects = name, []string{"provisioning." + name}
	c.Effect = func(ctx context.Context, tx pgx.Tx, e event.Event) ([]string, error) {
		if e.Aggregate == "poison" {
			return nil, errors.New("poison")
		}
		defer func() { processed <- struct{}{} }()
		return record(name)(ctx, tx, e)
	}
	var all []event.Draft
	batch := &pgx.Batch{}
	for i := range events {
		d := event.Draft{ID: ids.New[ids.Event](), Stream: event.StreamProvisioning, Subject: c.Subjects[0], Aggregate: fmt.Sprint("a", i), Sequence: 1, Payload: map[string]any{}}
		if n > 0 && i%n == 0 {
			d.Aggregate, d.Sequence = "poison", int64(i+1)
		}
		event.Queue(batch, d)
		all = append(all, d)
	}
	if err := b.db.SendBatch(b.t.Context(), batch).Close(); err != nil {
		b.t.Fatal(err)
	}
	b.publish(all...)
	began := time.Now()
	b.run(c)
	for range events * 98 / 100 {
		<-processed
	}
	return time.Since(began)
}

func (b *bundle) deadLettersFitTheStream() {
	b.t.Helper()
	stream, err := b.js.Stream(b.t.Context(), event.StreamDLQ)
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(b.t.Context(), "dlq.provisioning."+subject)
	if err != nil {
		b.t.Fatal(err)
	}
	var letter event.DeadLetter
	if err := json.Unmarshal(msg.Data, &letter); err != nil || letter.Consumer != "notification_relay_test" || letter.Attempts != 10 || letter.Error == "" {
		b.t.Errorf("%+v, %v", letter, err)
	}
}

// A dead letter that operators cannot be notified of has no dead letter of its own in the stream.
func TestADeadLetterCausesNoFurtherOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(Consumer{Name: "ops_dlq", Stream: event.StreamDLQ, Subjects: []string{"dlq.>"}, Unordered: true, Effect: func(context.Context, pgx.Tx, event.Event) ([]string, error) { return nil, errors.New("broken") }})
	b.send("dlq.provisioning.x", ids.New[ids.Event]().String(), `{}`)
	b.eventually("a row", func() bool { return b.count(`SELECT count(*) FROM dead_letters WHERE dead_at IS NOT NULL`) == 1 })
	b.idle("ops_dlq", event.StreamDLQ)
	stream, err := b.js.Stream(t.Context(), event.StreamDLQ)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("the stream grows: %v", err)
	}
}

// While PostgreSQL is away nothing is acknowledged, and no failure is counted.
func TestADatabaseThatIsAwayCountsNoFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`ALTER TABLE inbox RENAME TO away`)
	b.exec(`ALTER TABLE dead_letters RENAME TO gone`)
	b.run(consumer())
	b.publish(b.emit("a", 1)...)
	b.eventually("more deliveries than a dead letter needs", func() bool {
		c, err := b.js.Consumer(t.Context(), event.StreamProvisioning, "notification_relay_test")
		return err == nil && c.CachedInfo().Delivered.Consumer > 15
	})
	b.exec(`ALTER TABLE gone RENAME TO dead_letters`)
	b.exec(`ALTER TABLE away RENAME TO inbox`)
	b.eventually("the effect", func() bool { return b.count(`SELECT count(*) FROM effects`) == 1 })
	if n := b.count(`SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d failures", n)
	}
}
