package backup

import (
	"io"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/natsd"
)

func TestStreamsHaveTheirLastSequence(t *testing.T) {
	t.Parallel()
	server, err := natsd.Start(natsd.Config{Dir: t.TempDir(), Listen: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := server.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsd.JetStream(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAYMENTS", Subjects: []string{"payments.>"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(t.Context(), "payments.x", nil); err != nil {
			t.Fatal(err)
		}
	}
	address := server.URL()
	if last := streams(t, address); last["PAYMENTS"] != 3 {
		t.Errorf("%v", last)
	}
	server.Stop() // a backup does not need NATS
	if last := streams(t, address); last != nil {
		t.Errorf("%v of a stopped server", last)
	}
	if read, err := streamsOf(&output.Console{Env: func(string) string { return "" }}); read != nil || err != nil {
		t.Errorf("without NATS_URL: %v", err)
	}
}

func streams(t *testing.T, address string) map[string]uint64 {
	t.Helper()
	env := map[string]string{"NATS_URL": address}
	read, err := streamsOf(&output.Console{Err: io.Discard, Env: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	last, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return last
}
