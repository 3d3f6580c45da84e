package server

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

// startConfigured starts NATS with deploy/nats.conf, and returns its address for each user.
func startConfigured(t *testing.T) func(user string) string {
	t.Helper()
	text, err := os.ReadFile("../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	config := strings.Replace(string(text), `"/data"`, `"`+t.TempDir()+`"`, 1)
	for _, name := range []string{"HINTS", "WORK", "RELAY", "ALL"} {
		config = strings.ReplaceAll(config, "$GPUAAS_NATS_PASSWORD_"+name, `"secret"`)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.NoSigs = "127.0.0.1", natsserver.RANDOM_PORT, true
	s, err := natsserver.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS is not ready")
	}
	return func(user string) string {
		address, err := url.Parse(s.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword(user, "secret")
		return address.String()
	}
}

func connect(t *testing.T, address string) *nats.Conn {
	t.Helper()
	nc, err := natsd.Dial(address, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// A server whose user of NATS may not do what its roles need does not start.
func TestRightsOfNATSAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	address := startConfigured(t)
	for _, c := range []struct {
		user  string
		roles []Role
		lacks string
	}{
		{"hints", []Role{RoleAPI, RoleNode, RoleReconcile}, ""},
		{"work", []Role{RoleWork}, ""},
		{"relay", []Role{RoleRelay}, ""},
		{"all", []Role{RoleAPI, RoleWork, RoleRelay}, ""},
		{"hints", []Role{RoleAPI, RoleWork}, "dlq.>, which role work needs"},
		{"work", []Role{RoleRelay}, "provisioning.>, which role relay needs"},
		{"relay", []Role{RoleWork}, "$JS.ACK.>, which role work needs"},
	} {
		err := checkNATSRights(t.Context(), connect(t, address(c.user)), c.roles)
		if c.lacks == "" && err != nil || c.lacks != "" && (err == nil || !strings.Contains(err.Error(), c.lacks)) {
			t.Errorf("%s as %v: %v", c.user, c.roles, err)
		}
	}
}

// A user reads no replies to another one: JetStream delivers events to the inbox of work.
func TestUsersOfNATSReadTheirOwnInboxOnly(t *testing.T) {
	t.Parallel()
	address := startConfigured(t)
	for _, user := range []string{"hints", "work", "relay"} {
		for _, owner := range []string{"hints", "work", "relay", "all"} {
			inbox := connect(t, address(owner)).NewInbox()
			nc := connect(t, address(user))
			if _, err := nc.SubscribeSync(inbox[:strings.LastIndex(inbox, ".")] + ".>"); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) != (user != owner) {
				t.Errorf("%s subscribes to the inbox of %s: %v", user, owner, err)
			}
		}
	}
}

// The users of deploy/nats.conf have the rights that a relay and a worker use: an event is published, processed, and
// becomes a dead letter. The stream is lost and filled again meanwhile.
func TestUsersOfNATSSuffice(t *testing.T) {
	t.Parallel()
	address, db, hints := startConfigured(t), pgtest.Clone(t), &hint.Bus{}
	if _, err := db.Exec(t.Context(), `ALTER TABLE event_consumers ALTER since SET DEFAULT '-infinity'`); err != nil { // it emits at once
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	run := func(work func(context.Context) error) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- work(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	relayed, err := natsd.JetStream(connect(t, address("relay")))
	if err != nil {
		t.Fatal(err)
	}
	consumed, err := natsd.JetStream(connect(t, address("work")))
	if err != nil {
		t.Fatal(err)
	}
	relay := &event.Relay{DB: db, JS: relayed, Hints: hints, Environment: "test", Retention: func() time.Duration { return 24 * time.Hour }, Log: log}
	run(relay.Run)
	processed := make(chan ids.Event, 100)
	all := []consume.Consumer{{Name: "c", Stream: event.StreamFleet, Subjects: []string{"fleet.x"}, Effect: func(_ context.Context, _ pgx.Tx, e event.Event) ([]string, error) {
		processed <- e.ID
		return nil, nil
	}}}
	runner := &consume.Runner{DB: db, JS: consumed, Hints: hints, Environment: "test", Consumers: all, Metrics: consume.NewMetrics(db, all), Log: log}
	run(runner.Run)
	for n := range int64(2) {
		d := event.Draft{ID: ids.New[ids.Event](), Stream: event.StreamFleet, Subject: "fleet.x", Aggregate: "a", Sequence: n + 1, Payload: map[string]any{}}
		b := &pgx.Batch{}
		event.Queue(b, d)
		if err := db.SendBatch(t.Context(), b).Close(); err != nil {
			t.Fatal(err)
		}
		hints.Send(event.Topic)
		select {
		case id := <-processed:
			if id != d.ID {
				t.Errorf("processed %s, expected %s", id, d.ID)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("event %d is not processed", n)
		}
		if n == 0 {
			if err := relayed.DeleteStream(t.Context(), event.StreamFleet); err != nil {
				t.Fatal(err)
			}
		}
	}
	dead := event.DeadLetter{ID: ids.New[ids.Event]().UUID, Envelope: event.Event{Type: "fleet.x", Payload: []byte(`{}`)}, Consumer: "c", Error: "x", Attempts: 10}
	if err := dead.Publish(t.Context(), consumed, "test", event.StreamFleet); err != nil {
		t.Errorf("a worker publishes a dead letter: %v", err)
	}
	if err := dead.Publish(t.Context(), relayed, "test", event.StreamFleet); err != nil {
		t.Errorf("the relay publishes a dead letter: %v", err)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]bool{
		{">", "a.b"}: true, {"a.>", "a.b.c"}: true, {"a.>", "a"}: false, {"a.*", "a.b"}: true, {"a.*", "a.>"}: false, {"a.b", "a.b"}: true, {"a.b", "a.*"}: false,
		{"a.b.c", "a.b"}: false, {"$JS.API.STREAM.INFO.*", "$JS.API.STREAM.INFO.*"}: true,
	} {
		if got := covers(pair[0], pair[1]); got != want {
			t.Errorf("%s covers %s: %t", pair[0], pair[1], got)
		}
	}
}
