package natsd_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/natsd"
)

func start(t *testing.T, c natsd.Config) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func open(t *testing.T, connect func() (*nats.Conn, error)) jetstream.JetStream {
	t.Helper()
	nc, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsd.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestStreamsOutliveTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, natsd.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	js := open(t, func() (*nats.Conn, error) { return first.Connect("test") })
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if url := first.URL(); url != "" {
		t.Errorf("a server without a listen option listens at %s", url)
	}
	first.Stop()

	second := start(t, natsd.Config{Dir: dir, Listen: true})
	js = open(t, func() (*nats.Conn, error) { return natsd.Dial(second.URL(), "test") })
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(t.Context(), 1)
	if err != nil || string(msg.Data) != "kept" {
		t.Errorf("got %v, %v", msg, err)
	}
}

func TestFolderThatCannotBeUsedIsAnError(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := natsd.Start(natsd.Config{Dir: file}); err == nil {
		s.Stop()
		t.Error("started in a file")
	}
}

func TestServerThatIsDownIsNoErrorYet(t *testing.T) {
	t.Parallel()
	js := open(t, func() (*nats.Conn, error) { return natsd.Dial("nats://127.0.0.1:1", "test") })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := js.Publish(ctx, "s.a", nil); err == nil {
		t.Error("published without a stream")
	}
}

// The inbox contains the user and never a token, which is a secret.
func TestInboxIsOfTheUser(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"nats://work:secret@127.0.0.1:1":             "_INBOX_work.",
		"work:secret@127.0.0.1:1":                    "_INBOX_work.",
		"nats://work:secret@127.0.0.1:1,127.0.0.1:2": "_INBOX_work.",
		"nats://token@127.0.0.1:1":                   "_INBOX.",
		"nats://127.0.0.1:1":                         "_INBOX.",
	} {
		nc, err := natsd.Dial(address, "test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, want) {
			t.Errorf("%s: %s", address, inbox)
		}
	}
}

// A crash between the two files that describe a new stream leaves one of them. What
// is then made of that name must outlive the server, too.
func TestAHalfMadeStreamIsMadeAgain(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	fill := func() *natsd.Server {
		s := start(t, natsd.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		js := open(t, func() (*nats.Conn, error) { return s.Connect("test") })
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		return s
	}
	fill().Stop()
	sums, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "S", "meta.sum"))
	if err != nil || len(sums) != 1 {
		t.Fatalf("%v, %v", sums, err)
	}
	if err := os.Remove(sums[0]); err != nil {
		t.Fatal(err)
	}
	fill().Stop()

	last := start(t, natsd.Config{Dir: dir})
	js := open(t, func() (*nats.Conn, error) { return last.Connect("test") })
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("it contains %d messages", n)
	}
}
