package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent"
)

// helperVariable has the configuration of a helper that this binary runs as: only a process of its own can be killed.
const helperVariable = "RELAY_TEST_HELPER"

func TestMain(m *testing.M) {
	text := os.Getenv(helperVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c agent.Config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		c.Log = slog.New(slog.DiscardHandler)
		err = agent.RunHelper(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startHelper starts the helper of the node as a process of its own, and returns a function that kills it.
func (i *installation) startHelper(c agent.Config) (kill func()) {
	i.t.Helper()
	text, err := json.Marshal(map[string]any{"StateDir": c.StateDir, "Socket": c.Socket, "Driver": c.Driver, "Profile": c.Profile, "Hostname": c.Hostname, "Version": c.Version, "PeerUID": os.Getuid(), "PeerGID": os.Getgid()})
	must(i.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), helperVariable+"="+string(text)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(i.t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	i.t.Cleanup(kill)
	i.eventually("the helper has its socket", func() bool {
		_, err := os.Stat(c.Socket)
		return err == nil
	})
	return kill
}

// The helper is killed alone under twenty streams: they continue, and another one waits for the next helper and opens.
func TestTheHelperKilledUnderStreams(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	i.stopNode() // one process; here it is two
	c := agent.Config{
		Server: i.url, StateDir: i.stateDir, CA: i.ca.Bundle(), Driver: agent.DriverSim, Profile: profile, Hostname: "sim-1", Version: "test",
		Socket: filepath.Join(i.stateDir, "helper.sock"), HelperUID: os.Getuid(), Log: slog.New(slog.DiscardHandler),
	}
	c.Token = func(context.Context) (token string, err error) {
		err = pgx.BeginFunc(t.Context(), i.db, func(tx pgx.Tx) (err error) {
			token, _, err = i.fleet.EnrolmentToken(t.Context(), tx, i.node)
			return err
		})
		return token, err
	}
	_, err := agent.Enrol(t.Context(), c)
	must(t, err)
	kill := i.startHelper(c)
	run(t, func(ctx context.Context) error { return agent.RunNetwork(ctx, c) })
	var clients []*xssh.Client
	for range 20 {
		clients = append(clients, i.client(of, 1))
	}
	kill()
	must(t, os.Remove(c.Socket))
	opened := make(chan error, 1)
	go func() {
		conn, err := i.dial(of, 1)
		if err == nil {
			err = conn.Close()
		}
		opened <- err
	}()
	for n, client := range clients {
		if got := output(t, client, "echo alive", ""); got != "alive\n" {
			t.Errorf("stream %d: %q", n, got)
		}
	}
	select {
	case err := <-opened:
		t.Errorf("a stream has opened without a helper: %v", err)
	case <-time.After(time.Second):
	}
	i.startHelper(c)
	if err := <-opened; err != nil {
		t.Errorf("with the next helper: %v", err)
	}
	if got := output(t, i.client(of, 1), "echo alive", ""); got != "alive\n" {
		t.Errorf("%q", got)
	}
}
