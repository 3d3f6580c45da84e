//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/dev/simssh"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// TestTheAPIKilledUnderTerminals runs the roles in processes of their own, and kills that of the API under twenty sessions. They
// continue, and others open when it is back.
func TestTheAPIKilledUnderTerminals(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.unlimited(t)
	h.start() // makes tenant, keys, certificates and nodes
	var all []allocation
	for range 3 {
		all = append(all, h.create(t, "t4", 1))
	}
	for _, a := range all {
		h.becomes(t, a, "active")
	}
	h.stop()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(h.data(), "postgres"), Durable: true})
	must(t, err)
	t.Cleanup(func() { _ = cluster.Stop(pgcluster.Immediate) })
	b := &bus{t: t, dir: h.path("bus"), port: freePort(t)}
	b.start()
	t.Cleanup(b.kill)
	env := []string{"DATABASE_URL=" + cluster.URL(), fmt.Sprintf("NATS_URL=nats://127.0.0.1:%d", b.port)}
	local := func() string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }
	api, node := local(), local()
	h.terminals = local()
	role := func(roles, address string, args ...string) (kill func()) {
		t.Helper()
		kill = h.run(t, h.own(env...), "gpuaas", append([]string{"server", "--roles=" + roles, "--repository", h.repo, "--metrics-listen", "127.0.0.1:0", "--state-dir", filepath.Join(h.data(), "secrets")}, args...)...)
		h.ready(t, "http://"+address)
		return kill
	}
	role("terminal", h.terminals, "--terminal-listen", h.terminals, "--relay-listen", "127.0.0.1:0")
	startAPI := func() (kill func()) { return role("api", api, "--listen", api, "--public-url", "http://"+api) }
	kill := startAPI()
	h.run(t, h.own(env...), "gpuaas", "server", "--roles=node,reconcile,work,relay", "--repository", h.repo, "--metrics-listen", "127.0.0.1:0", "--node-listen", node, "--public-url", "http://"+api, "--state-dir", filepath.Join(h.data(), "secrets"))
	until(t, patience, "the node API accepts connections", func() error {
		conn, err := net.Dial("tcp", node)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	nodes, err := filepath.Glob(filepath.Join(h.agents(), "gpu-t4-*", "identity"))
	must(t, err)
	for _, identity := range nodes {
		name := filepath.Base(filepath.Dir(identity))
		h.agent(t, name, "https://"+node)
		h.simulatedSSH(t, name)
	}
	p, err := h.profile("default")
	must(t, err)
	p.URL = "http://" + api
	must(t, (profile.Store{Path: filepath.Join(h.path("config"), "config.yaml")}).Write("default", p))
	h.ended = make(chan struct{}) // the server is not started again
	t.Cleanup(func() { h.up = nil })

	sessions := h.enterAll(t, all, 20)
	kill()
	if _, err := h.enter(t, all[0], "shell"); err == nil {
		t.Error("a session opens without the API")
	}
	respond(t, sessions)
	startAPI()
	respond(t, h.enterAll(t, all, 3))
	for i, s := range sessions {
		select {
		case <-s.closed:
			t.Errorf("session %d ended with %q", i, *s.reason)
		default:
		}
	}
	leave(t, sessions)
}

// simulatedSSH serves the logins of a simulated node until the test ends.
func (h *installation) simulatedSSH(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		s := &simssh.Server{StateDir: filepath.Join(h.agents(), name), Clock: clock.Clock{}, Log: slog.New(slog.DiscardHandler)}
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
}
