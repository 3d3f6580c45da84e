package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

// stream starts NATS with the stream of dead letters.
func (b *bundle) stream() jetstream.JetStream {
	b.t.Helper()
	server, err := natsd.Start(natsd.Config{Dir: b.t.TempDir()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(server.Stop)
	nc, err := server.Connect("test")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := natsd.JetStream(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: event.StreamDLQ, Subjects: []string{"dlq.>"}, Metadata: map[string]string{event.EpochKey: "1"}}
	if _, err := js.CreateStream(b.t.Context(), config); err != nil {
		b.t.Fatal(err)
	}
	return js
}

// consume runs the consumer of dead letters.
func (b *bundle) consume(js jetstream.JetStream) {
	b.t.Helper()
	ops := slices.DeleteFunc(b.Consumers(), func(c consume.Consumer) bool { return c.Stream != event.StreamDLQ })
	r := &consume.Runner{
		DB: b.DB, JS: js, Hints: &hint.Bus{}, Environment: "test", Consumers: ops, Metrics: consume.NewMetrics(b.DB, ops), Log: slog.New(slog.DiscardHandler),
	}
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

// An event above the limit of NATS is a dead letter without payload, and operators are notified of it: once for each
// subject, and about no resource.
func TestOperatorsAreNotifiedOfALargeDeadLetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`) // the letters are older than the consumer
	js := b.stream()
	large := json.RawMessage(`{"urn": "v:s:-:-:-:node:1", "text": "` + strings.Repeat("x", 2<<20) + `"}`)
	for _, subject := range []string{"fleet.node_retiring", "fleet.node_retiring", "fleet.drift_opened"} {
		letter := event.DeadLetter{
			ID: uuid.Must(uuid.NewV7()), Consumer: event.RelayName, Error: "too large", Attempts: 10,
			Envelope: event.Event{ID: ids.New[ids.Event](), Type: subject, OccurredAt: time.Now(), Version: event.Version, Payload: large},
		}
		if err := letter.Publish(t.Context(), js, "test", event.StreamFleet); err != nil {
			t.Fatal(err)
		}
	}
	b.consume(js)
	text := func(subject string) string {
		return "An event " + subject + " has become a dead letter. Retry or discard it: gpuaas events dead-letters."
	}
	want := []string{`"" 1 ` + text("fleet.drift_opened"), `"" 2 ` + text("fleet.node_retiring")}
	var got []string
	for deadline := time.Now().Add(race.Slower * 15 * time.Second); !slices.Equal(got, want) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got = nil
		for _, n := range b.list("operator") {
			got = append(got, fmt.Sprintf("%q %d %s", n.URN, n.Count, n.Message))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the operator is notified with %q", got)
	}
}
