// Package consumetest delivers events to consumers of other packages, as a stream may do it in the worst case.
package consumetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

// most is the number of deliveries of one event in one stream, at most.
const most = 5

type streams struct {
	t         *testing.T
	js        jetstream.JetStream
	consumers []consume.Consumer
	epoch     int
}

// Deliver runs the consumers and publishes each event one to five times in a random sequence. Then it loses the streams,
// and does the same in new ones. It returns when the consumers have acknowledged all messages. The caller has stored the
// events, besides those of the stream of dead letters.
func Deliver(t *testing.T, db pg.Pool, consumers []consume.Consumer, events []event.Draft) {
	t.Helper()
	server, err := natsd.Start(natsd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	nc, err := server.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &streams{t: t, consumers: consumers}
	if s.js, err = natsd.JetStream(nc); err != nil {
		t.Fatal(err)
	}
	s.create()
	s.run(db)
	s.publish(events)
	for _, name := range s.names() {
		if err := s.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s.create()
	s.publish(events)
}

func (s *streams) names() (all []string) {
	for _, c := range s.consumers {
		if !slices.Contains(all, c.Stream) {
			all = append(all, c.Stream)
		}
	}
	return all
}

// create creates the streams of the next epoch, as the relay does.
func (s *streams) create() {
	s.t.Helper()
	s.epoch++
	for _, name := range s.names() {
		if _, err := s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{strings.ToLower(name) + ".>"}, Metadata: map[string]string{event.EpochKey: strconv.Itoa(s.epoch)},
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *streams) run(db pg.Pool) {
	r := &consume.Runner{
		DB: db, JS: s.js, Hints: &hint.Bus{}, Environment: "test", Consumers: s.consumers, Metrics: consume.NewMetrics(db, s.consumers), Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// publish publishes the events without the id by which the stream drops duplicates, and waits for the consumers.
func (s *streams) publish(events []event.Draft) {
	s.t.Helper()
	var all []event.Draft
	for _, e := range events {
		for range 1 + rand.IntN(most) { //nolint:gosec // a test
			all = append(all, e)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // a test
	published := map[string]uint64{}
	for _, e := range all {
		msg := &nats.Msg{Subject: e.Subject, Header: nats.Header{"ce-id": {e.ID.String()}}, Data: []byte(`{}`)}
		if e.Stream == event.StreamDLQ {
			letter := event.DeadLetter{Envelope: event.Event{ID: e.ID, Type: strings.SplitN(e.Subject, ".", 3)[2], Payload: json.RawMessage(`{}`)}}
			msg.Data, _ = json.Marshal(letter)
		}
		if _, err := s.js.PublishMsg(s.t.Context(), msg); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range s.consumers {
			if slices.Contains(c.Subjects, e.Subject) || c.Stream == event.StreamDLQ && e.Stream == event.StreamDLQ {
				published[c.Name]++
			}
		}
	}
	for _, c := range s.consumers {
		s.wait(c, published[c.Name])
	}
}

// wait returns when the consumer has acknowledged so many messages of the present stream.
func (s *streams) wait(c consume.Consumer, messages uint64) {
	s.t.Helper()
	var state string
	for began := (clock.Clock{}).Now(); time.Since(began) < race.Slower*time.Minute; time.Sleep(5 * time.Millisecond) {
		found, err := s.js.Consumer(s.t.Context(), c.Stream, c.Name)
		if err != nil {
			state = err.Error()
			continue
		}
		i := found.CachedInfo()
		current := i.Config.Metadata[event.EpochKey] == strconv.Itoa(s.epoch)
		if current && i.Delivered.Consumer >= messages && i.NumPending == 0 && i.NumAckPending == 0 {
			return
		}
		state = strconv.FormatUint(i.Delivered.Consumer, 10) + " delivered"
	}
	s.t.Fatalf("%s has not processed %d messages: %s", c.Name, messages, state)
}
