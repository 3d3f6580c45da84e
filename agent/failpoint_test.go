//go:build failpoint

package agent_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// TestMain turns this binary into an agent when it was started as one: only a
// process of its own can be killed.
func TestMain(m *testing.M) {
	server := os.Getenv("AGENT_TEST_SERVER")
	if server == "" {
		os.Exit(m.Run())
	}
	c := agent.Config{
		Server: server, StateDir: os.Getenv("AGENT_TEST_DIR"), CAFingerprint: os.Getenv("AGENT_TEST_CA"),
		Token:  func(context.Context) (string, error) { return os.Getenv("AGENT_TEST_TOKEN"), nil },
		Driver: agent.DriverSim, Profile: "t4-4", Hostname: "gpu-01", Version: "test", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if err := half(c, os.Getenv("AGENT_TEST_HALF")); err != nil {
		os.Exit(1)
	}
}

// half runs one of the halves, or both in one process.
func half(c agent.Config, which string) error {
	c.Socket, c.Anchor = filepath.Join(c.StateDir, "helper.sock"), filepath.Join(c.StateDir, "anchor")
	c.PeerUID, c.PeerGID, c.HelperUID = os.Getuid(), os.Getgid(), os.Getuid()
	switch which {
	case "helper":
		return agent.RunHelper(context.Background(), c)
	case "network":
		return agent.RunNetwork(context.Background(), c)
	}
	c.Socket, c.Anchor = "", ""
	return agent.Run(context.Background(), c)
}

// INV-47: killed at any point of either task, the agent reaches the same end, and executes each task exactly once.
func TestINV47KilledAtEveryPoint(t *testing.T) {
	t.Parallel()

	for _, kind := range []protocol.Type{protocol.ProvisionUser, protocol.RevokeUser} {
		for _, point := range []string{
			"agent.task.before_journal", "agent.task.after_journal", "agent.step.before_do:1", "agent.step.after_do:1", "agent.step.before_do:3",
			"agent.step.after_do:3", "agent.task.before_result", "agent.task.after_result",
		} {
			t.Run(string(kind)+"/"+point, func(t *testing.T) {
				t.Parallel()
				killed(t, kind, point)
			})
		}
	}
}

func killed(t *testing.T, kind protocol.Type, point string) {
	t.Helper()
	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	token, err := d.token(node)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hits := filepath.Join(t.TempDir(), "hits")
	// A point that is never reached must fail the test, not hang it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func(env ...string) *exec.Cmd { return d.process(ctx, dir, token, env...) }
	var fence int64 = 1
	if kind == protocol.RevokeUser { // something must be there to be revoked
		cmd := start()
		e := taskFor(t, node, id, protocol.ProvisionUser, fence, 1)
		d.send(e)
		d.until("ready", func() bool { return len(d.results[e.Task]) > 0 })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		fence++
		h, err := sim.Read(sim.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		err = sim.Edit(sim.Path(dir), func(h *sim.Host) error {
			h.Processes = append(h.Processes, sim.Process{PID: 7, UID: 200001, GPU: h.GPUs[0].UUID, Command: "train"})
			return nil
		})
		if err != nil || len(h.Accounts) != 1 {
			t.Fatal(h.Accounts, err)
		}
	}

	victim := start("GPUAAS_FAILPOINT="+point, "GPUAAS_FAILPOINT_LOG="+hits)
	e := taskFor(t, node, id, kind, fence, 1)
	d.send(e)
	_ = victim.Wait()
	reached(t, hits)

	survivor := start()
	want := protocol.Ready
	if kind == protocol.RevokeUser {
		want = protocol.Gone
	}
	d.until(string(want), func() bool { return len(d.results[e.Task]) > 0 && d.phase(node, id) == want })
	if err := survivor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = survivor.Wait()
	for _, r := range d.results[e.Task] {
		if r.Outcome != protocol.Succeeded {
			t.Errorf("%+v", r)
		}
	}
	h, err := sim.Read(sim.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	if kind == protocol.RevokeUser && (len(h.Accounts)+len(h.Files)+len(h.Processes) > 0 || h.Kills != 1 || h.Scrubs != 1) {
		t.Errorf("left %+v", h)
	}
	if kind == protocol.ProvisionUser && (len(h.Accounts) != 1 || h.Scrubs != 0) {
		t.Errorf("%+v", h)
	}
}

// process starts an agent in a process of its own.
func (d *server) process(ctx context.Context, dir, token string, env ...string) *exec.Cmd {
	d.t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "AGENT_TEST_SERVER=https://"+d.addr, "AGENT_TEST_DIR="+dir, "AGENT_TEST_CA="+fingerprint(d.ca.Bundle()), "AGENT_TEST_TOKEN="+token)
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	return cmd
}

// reached expects one hit in the log of a failpoint.
func reached(t *testing.T, hits string) {
	t.Helper()
	if text, err := os.ReadFile(hits); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("the point was not reached: %q, %v", text, err)
	}
}

// INV-47: killed after a task about the node has begun its step, the agent begins
// it again: the GPU is reset, and the control plane gets the result once or twice.
func TestINV47KilledInATaskAboutTheNode(t *testing.T) {
	t.Parallel()

	d, node, dir := newServer(t), ids.New[ids.Node](), t.TempDir()
	token, err := d.token(node)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hits := filepath.Join(t.TempDir(), "hits")
	victim := d.process(ctx, dir, token, "GPUAAS_FAILPOINT=agent.node.after_begin", "GPUAAS_FAILPOINT_LOG="+hits)
	d.until("a report", func() bool { _, ok := d.reports[node]; return ok })
	const cleared = 62 // by a reset
	if err := sim.Edit(sim.Path(dir), func(h *sim.Host) error { h.GPUs[0].XIDs = []int{cleared}; return nil }); err != nil {
		t.Fatal(err)
	}
	e := taskFor(t, node, ids.Allocation{}, protocol.GPUReset, 1, 1)
	d.send(e)
	_ = victim.Wait()
	reached(t, hits)
	if h, err := sim.Read(sim.Path(dir)); err != nil || len(h.GPUs[0].XIDs) != 1 {
		t.Fatalf("reset before the crash: %+v, %v", h, err)
	}

	survivor := d.process(ctx, dir, token)
	d.until("its end", func() bool { return len(d.results[e.Task]) > 0 })
	if err := survivor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = survivor.Wait()
	for _, r := range d.results[e.Task] {
		if r.Outcome != protocol.Succeeded {
			t.Errorf("%+v", r)
		}
	}
	if h, err := sim.Read(sim.Path(dir)); err != nil || len(h.GPUs[0].XIDs) != 0 {
		t.Errorf("after the restart: %+v, %v", h, err)
	}
}
