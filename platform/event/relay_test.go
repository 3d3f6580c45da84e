package event_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// bundle is a database, a NATS server that can be stopped, wiped and started
// again at one address, and relays between them.
type bundle struct {
	db    *pgxpool.Pool
	dir   string
	port  int
	nats  *natsd.Server
	nc    *nats.Conn
	js    jetstream.JetStream
	hints *hint.Bus
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{db: pgtest.Clone(t), dir: t.TempDir(), hints: &hint.Bus{}}
	b.startNATS(t)
	t.Cleanup(func() { b.nats.Stop() })
	address, err := url.Parse(b.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	if b.port, err = strconv.Atoi(address.Port()); err != nil {
		t.Fatal(err)
	}
	if b.nc, err = natsd.Dial(b.nats.URL(), "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.nc.Close)
	if b.js, err = natsd.JetStream(b.nc); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) startNATS(t *testing.T) {
	t.Helper()
	var err error
	if b.nats, err = natsd.Start(natsd.Config{Dir: b.dir, Listen: true, Port: b.port}); err != nil {
		t.Fatal(err)
	}
}

// relay runs one until stop is called, or the test ends.
func (b *bundle) relay(t *testing.T) (r *event.Relay, stop func()) {
	t.Helper()
	r = &event.Relay{DB: b.db, JS: b.js, Hints: b.hints, Environment: "test", Retention: func() time.Duration { return 30 * 24 * time.Hour }, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the relay ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

// got returns the ids in the stream, in sequence.
func (b *bundle) got(t *testing.T, name string) (all []ids.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*race.Slower*time.Second) // thousands of messages, one by one
	defer cancel()
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return nil
		}
		id, err := ids.Parse[ids.Event](msg.Header.Get("ce-id"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	return all
}

// wants waits until the stream contains exactly these ids, in this sequence.
func (b *bundle) wants(t *testing.T, stream string, want []ids.Event) {
	t.Helper()
	var got []ids.Event
	eventually(t, "all facts are in "+stream, func() bool {
		b.hints.Send(event.Topic)
		got = b.got(t, stream)
		return len(got) >= len(want)
	})
	if len(got) != len(want) {
		t.Fatalf("%s has %d facts, want %d", stream, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("fact %d of %s is %s, want %s", i, stream, got[i], want[i])
		}
	}
}

// emit commits n events, each in its own transaction, and returns their ids.
func (b *bundle) emit(t *testing.T, from, n int) (emitted []ids.Event) {
	t.Helper()
	for i := range n {
		f := requested(int64(from + i))
		state(t, b.db, f)
		emitted = append(emitted, f.ID)
	}
	return emitted
}

func TestEventsArriveInOrderWithTheirHeaders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	emitted := b.emit(t, 1, 30)
	r, _ := b.relay(t)
	emitted = append(emitted, b.emit(t, 31, 30)...)
	b.wants(t, event.StreamProvisioning, emitted)

	stream, err := b.js.Stream(t.Context(), event.StreamProvisioning)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ce-specversion": "1.0", "ce-source": "/gpuaas/test", "ce-type": "io.gpuaas.provisioning.requested.v1",
		"ce-subject": "core42:aicloud:-:a:p:allocation:1", "Nats-Msg-Id": emitted[0].String(),
		"Gpuaas-Aggregate": "allocation:1", "Gpuaas-Sequence": "1",
	} {
		if got := msg.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	var e event.Event
	if err := json.Unmarshal(msg.Data, &e); err != nil || e.ID != emitted[0] || e.Version != "1.0" {
		t.Errorf("message %s: %v", msg.Data, err)
	}
	eventually(t, "nothing is pending", func() bool {
		all, err := r.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(b event.Backlog) bool { return b.Stream == event.StreamProvisioning })
		return len(all) == 5 && at >= 0 && all[at].Pending == 0
	})
	eventually(t, "its status is leading", func() bool { return r.Status().Leading && r.Status().Error == "" })
}

func TestManyEventsSpanBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.db.Exec(t.Context(), `INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, payload)
		SELECT gen_random_uuid(), 'BILLING', 'billing.balance_depleted', 'tenant:1', n, '{"urn": "u"}' FROM generate_series(1, 5000) n`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := b.db.Query(t.Context(), "SELECT event_id FROM outbox_events ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	var want []ids.Event
	for rows.Next() {
		var id ids.Event
		if err := rows.Scan(&id.UUID); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	b.relay(t)
	eventually(t, "the last is there", func() bool {
		stream, err := b.js.Stream(t.Context(), event.StreamBilling)
		return err == nil && stream.CachedInfo().State.Msgs == 5000
	})
	b.wants(t, event.StreamBilling, want)
}

func TestINV24OutageCostsDelayOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, _ := b.relay(t)
	emitted := b.emit(t, 1, 5)
	b.wants(t, event.StreamProvisioning, emitted)

	b.nats.Stop()
	emitted = append(emitted, b.emit(t, 6, 20)...)
	eventually(t, "its status has an error", func() bool { return r.Status().Error != "" })
	b.startNATS(t)
	emitted = append(emitted, b.emit(t, 26, 5)...)
	b.wants(t, event.StreamProvisioning, emitted)
}

func TestINV25WipedStreamIsFilledWithTheSameIDs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.relay(t)
	emitted := b.emit(t, 1, 20)
	b.wants(t, event.StreamProvisioning, emitted)

	b.nats.Stop()
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	emitted = append(emitted, b.emit(t, 21, 5)...)
	b.startNATS(t)
	b.wants(t, event.StreamProvisioning, emitted)

	// By an operator, while the server runs.
	if err := b.js.DeleteStream(t.Context(), event.StreamProvisioning); err != nil {
		t.Fatal(err)
	}
	emitted = append(emitted, b.emit(t, 26, 1)...)
	b.wants(t, event.StreamProvisioning, emitted)
	// No sequence is used twice: a late acknowledgement of a lost message would be that of another one.
	stream, err := b.js.Stream(t.Context(), event.StreamProvisioning)
	if err != nil || stream.CachedInfo().State.FirstSeq <= 20+25 {
		t.Errorf("the stream begins at %d, %v", stream.CachedInfo().State.FirstSeq, err)
	}
}

// An operator requests a further attempt for an event that a stream has rejected. It follows the later ones.
func TestRetryPublishesADeadLetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, stop := b.relay(t)
	first := b.emit(t, 1, 1)
	b.wants(t, event.StreamProvisioning, first)
	stop()
	stream, err := b.js.Stream(t.Context(), event.StreamProvisioning)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	limit := func(n int32) {
		config.MaxMsgSize = n
		if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	limit(2_000)
	big := requested(2)
	big.Payload = map[string]any{"text": strings.Repeat("x", 4_000)}
	state(t, b.db, big)
	last := b.emit(t, 3, 1)
	b.relay(t)
	b.wants(t, event.StreamProvisioning, append(first, last...))
	retry := func() {
		t.Helper()
		if _, err := b.db.Exec(t.Context(), `UPDATE dead_letters SET retry_at = now(), resolved_by = 'user:op' WHERE event_id = $1`, big.ID.UUID); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what, condition string) {
		t.Helper()
		eventually(t, what, func() (yes bool) {
			b.hints.Send(event.Topic)
			err := b.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM dead_letters WHERE consumer = 'relay' AND event_id = $1 AND `+condition+`)`, big.ID.UUID).Scan(&yes)
			return err == nil && yes
		})
	}
	is("a dead letter", `dead_at IS NOT NULL AND attempts = 10 AND resolved_at IS NULL`)
	retry()
	is("one attempt more", `retry_at IS NULL AND attempts = 11 AND resolved_at IS NULL`)
	limit(-1)
	retry()
	is("published", `resolution = 'retried' AND resolved_by = 'user:op'`)
	b.wants(t, event.StreamProvisioning, append(append(first, last...), big.ID))
}

func TestStreamThatLostItsTailIsRefilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, stop := b.relay(t)
	emitted := b.emit(t, 1, 10)
	b.wants(t, event.StreamProvisioning, emitted)
	stop()
	// As after a power cut: what it acknowledged last is not there.
	if _, err := b.db.Exec(t.Context(), "UPDATE outbox_position SET acked = acked + 3"); err != nil {
		t.Fatal(err)
	}
	b.relay(t)
	eventually(t, "the position moves back and forward again", func() bool {
		var acked int64
		err := b.db.QueryRow(t.Context(), "SELECT acked FROM outbox_position WHERE stream = 'PROVISIONING'").Scan(&acked)
		return err == nil && acked == 23 // the ten follow the thirteen that were acknowledged
	})
	b.wants(t, event.StreamProvisioning, emitted)
}

func TestRestartInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]string{
		// What the position would be had the process died before it moved.
		"before the position moved": "UPDATE outbox_position SET xid = '0', seq = 0",
		"in order":                  "SELECT 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, stop := b.relay(t)
			emitted := b.emit(t, 1, 40)
			b.wants(t, event.StreamProvisioning, emitted)
			stop()
			if _, err := b.db.Exec(t.Context(), crash); err != nil {
				t.Fatal(err)
			}
			emitted = append(emitted, b.emit(t, 41, 40)...)
			b.relay(t)
			b.wants(t, event.StreamProvisioning, emitted)
		})
	}
}

func TestLostDatabaseConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.relay(t)
	emitted := b.emit(t, 1, 3)
	b.wants(t, event.StreamProvisioning, emitted)
	_, err := b.db.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pool works again", func() bool { return b.db.Ping(t.Context()) == nil })
	emitted = append(emitted, b.emit(t, 4, 3)...)
	b.wants(t, event.StreamProvisioning, emitted)
}

func TestOneRelayLeadsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, stop := b.relay(t)
	eventually(t, "the first leads", func() bool { return first.Status().Leading })
	second, _ := b.relay(t)
	emitted := b.emit(t, 1, 10)
	b.wants(t, event.StreamProvisioning, emitted)
	if second.Status().Leading {
		t.Error("two lead")
	}
	stop()
	emitted = append(emitted, b.emit(t, 11, 10)...)
	b.wants(t, event.StreamProvisioning, emitted)
	eventually(t, "the second leads", func() bool { return second.Status().Leading })
}

func TestINV28PoisonIsSetAsideAndOthersFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, huge, middle, bad, last := requested(1), requested(2), requested(3), requested(4), requested(5)
	huge.Payload = map[string]any{"text": strings.Repeat("x", 2<<20)} // above the server's 1 MB
	bad.Subject = "provisioning.not a subject"
	state(t, b.db, first, huge, middle, bad, last)
	r, _ := b.relay(t)
	b.wants(t, event.StreamProvisioning, []ids.Event{first.ID, middle.ID, last.ID})
	b.wants(t, event.StreamDLQ, []ids.Event{huge.ID, bad.ID})

	dead, err := b.js.Stream(t.Context(), event.StreamDLQ)
	if err != nil {
		t.Fatal(err)
	}
	for seq, subject := range map[uint64]string{1: "dlq.provisioning.provisioning.requested", 2: "dlq.provisioning.malformed"} {
		msg, err := dead.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		var letter event.DeadLetter
		if err := json.Unmarshal(msg.Data, &letter); err != nil || letter.Attempts != 10 || letter.Error == "" || msg.Subject != subject {
			t.Errorf("dead letter %s on %s: %v", msg.Data, msg.Subject, err)
		}
	}
	backlog, err := r.Pending(t.Context())
	if err != nil || backlog[4].DeadLetters != 2 {
		t.Errorf("backlog %+v, %v", backlog, err)
	}
}

// If the server rejects a message because of its own state, the event is not counted as failed.
func TestFullStreamIsAnOutageAndNoPoison(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, _ := b.relay(t)
	emitted := b.emit(t, 1, 3)
	b.wants(t, event.StreamProvisioning, emitted)
	limit := func(n int64, size int32) {
		stream, err := b.js.Stream(t.Context(), event.StreamProvisioning)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxMsgs, config.MaxMsgSize = n, size
		if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	limit(3, -1)
	emitted = append(emitted, b.emit(t, 4, 3)...)
	eventually(t, "its status has an error", func() bool { return r.Status().Error != "" })
	limit(-1, -1)
	b.wants(t, event.StreamProvisioning, emitted)
	if dead := b.got(t, event.StreamDLQ); len(dead) != 0 {
		t.Errorf("%d dead letters", len(dead))
	}

	limit(-1, 1_000) // and this is the fact's own
	big, after := requested(8), requested(9)
	big.Payload = map[string]any{"text": strings.Repeat("x", 2_000)}
	state(t, b.db, big, after)
	b.wants(t, event.StreamProvisioning, append(emitted, after.ID))
	b.wants(t, event.StreamDLQ, []ids.Event{big.ID})
}

func TestStreamThatAnotherMadeIsFilledToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, stop := b.relay(t)
	emitted := b.emit(t, 1, 5)
	b.wants(t, event.StreamProvisioning, emitted)
	stop()
	if err := b.js.DeleteStream(t.Context(), event.StreamProvisioning); err != nil {
		t.Fatal(err)
	}
	_, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamProvisioning, Subjects: []string{"provisioning.>"}})
	if err != nil {
		t.Fatal(err)
	}
	var want []ids.Event // as many as the lost stream had: only the epoch differs
	for range emitted {
		id := ids.New[ids.Event]()
		want = append(want, id)
		if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: "provisioning.foreign", Header: nats.Header{"ce-id": {id.String()}}}); err != nil {
			t.Fatal(err)
		}
	}
	b.relay(t)
	b.wants(t, event.StreamProvisioning, append(want, emitted...))
}
